"""OpenVINO's ScaledDotProductAttention: NaN or infinity in a key or value that no query may see reaches the output.

In float64 infinity in a value does not: the CPU plugin makes it the largest float32, which a weight of 0 multiplies.
"""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

mask = np.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = {}
for dtype in (np.float32, np.float64):
    parameters = [ops.parameter([1, 1, 2, 2], dtype) for _ in range(3)]
    attention_mask = ops.parameter([1, 1, 2, 2], bool)
    node = ops.scaled_dot_product_attention(*parameters, attention_mask)
    compiled = ov.Core().compile_model(ov.Model([node], [*parameters, attention_mask]), "CPU")
    for place in (1, 2):
        for poison in (np.nan, np.inf):
            arrays = [np.ones((1, 1, 2, 2), dtype) for _ in range(3)]
            arrays[place][0, 0, 1] = poison
            output = np.array(compiled([*arrays, mask])[0])
            case = (dtype.__name__, ("key", "value")[place - 1], str(poison))
            print(*case, f"in the hidden place: the output is {output[0, 0, 0]}; without it, ones")
            reached[case] = bool(np.isnan(output).any())
spared = [case for case, is_nan in reached.items() if not is_nan]
sys.exit(int(spared == [("float64", "value", "inf")]))
