"""OpenVINO's ScaledDotProductAttention: NaN or infinity in a value that no query may see reaches the output."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

parameters = [ops.parameter([1, 1, 2, 2], np.float32) for _ in range(3)]
attention_mask = ops.parameter([1, 1, 2, 2], bool)
node = ops.scaled_dot_product_attention(*parameters, attention_mask)
compiled = ov.Core().compile_model(ov.Model([node], [*parameters, attention_mask]), "CPU")
ones, mask = np.ones((1, 1, 2, 2), "f4"), np.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for poison in (np.nan, np.inf):
    value = ones.copy()
    value[0, 0, 1] = poison
    output = np.array(compiled([ones, ones, value, mask])[0])
    print(f"with {poison} in the hidden value the output is {output[0, 0, 0]}; without it, ones")
    reached.append(bool(np.isnan(output).any()))
sys.exit(int(all(reached)))
