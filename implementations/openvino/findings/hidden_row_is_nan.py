"""OpenVINO's ScaledDotProductAttention: a query that may attend to no key gets NaN."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

parameters = [ops.parameter([1, 1, 2, 2], np.float32) for _ in range(3)]
attention_mask = ops.parameter([1, 1, 2, 2], bool)
node = ops.scaled_dot_product_attention(*parameters, attention_mask)
compiled = ov.Core().compile_model(ov.Model([node], [*parameters, attention_mask]), "CPU")
output = compiled([*[np.ones((1, 1, 2, 2), "f4")] * 3, np.array([[[[True, True], [False, False]]]])])[0]
print(f"the query that may attend to nothing gets {output[0, 0, 1]}")
sys.exit(int(np.isnan(output[0, 0, 1]).all()))
