"""OpenVINO: with two values for three keys, a third value is read from memory that holds none."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

inputs = [ops.parameter([-1, -1, -1, -1], np.float32) for _ in range(3)]
node = ops.scaled_dot_product_attention(*inputs, None, None, False)
model = ov.Core().compile_model(ov.Model([node], inputs), "CPU", {"INFERENCE_NUM_THREADS": 1})
query, key = np.zeros((1, 1, 1, 16), np.float32), np.zeros((1, 1, 3, 16), np.float32)
try:
    answer = model([query, key, np.full((1, 1, 2, 16), 3, np.float32)])[0][0, 0, 0]
except RuntimeError as error:
    print(f"refused: {error}")
    sys.exit(0)
print(f"two values of 3 for three equal keys: {answer}; the mean of these values is 3")
sys.exit(int(not np.allclose(answer, 3, atol=0.1)))
