"""OpenVINO: in float64, made float32 of, infinity becomes the largest float; a row without keys gets the mean."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

seen = {}
for dtype in (np.float32, np.float64):
    parameters = [ops.parameter([1, 1, -1, 1], dtype) for _ in range(3)]
    attention_mask = ops.parameter([1, 1, 1, 2], bool)
    node = ops.scaled_dot_product_attention(*parameters, attention_mask)
    compiled = ov.Core().compile_model(ov.Model([node], [*parameters, attention_mask]), "CPU")
    query, key = np.ones((1, 1, 1, 1), dtype), np.ones((1, 1, 2, 1), dtype)
    value = np.array([1, 3], dtype).reshape(1, 1, 2, 1)
    seen[dtype] = compiled([query, key, value, np.zeros((1, 1, 1, 2), bool)])[0].item()
    print(f"{dtype.__name__}: a query that may attend to nothing gets {seen[dtype]}; the mean of all values is 2")
sys.exit(int(np.isnan(seen[np.float32]) and seen[np.float64] == 2))
