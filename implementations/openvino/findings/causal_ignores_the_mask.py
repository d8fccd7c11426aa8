"""OpenVINO's ScaledDotProductAttention: with causal=True the attention mask is ignored."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

arrays = [np.zeros((1, 1, 3, 3), "f4"), np.zeros((1, 1, 3, 3), "f4"), np.eye(3, dtype="f4")[None, None]]
mask = np.array([[[[True, False, True]] * 3]])  # nobody may see the second key
parameters = [ops.parameter([1, 1, 3, 3], np.float32) for _ in range(3)]
attention_mask = ops.parameter([1, 1, 3, 3], bool)
node = ops.scaled_dot_product_attention(*parameters, attention_mask, causal=True)
compiled = ov.Core().compile_model(ov.Model([node], [*parameters, attention_mask]), "CPU")
weights = compiled([*arrays, mask])[0][0, 0]
print("weights under causal=True and a mask that hides the second key:")
print(weights.round(3))
sys.exit(int(weights[1, 1] > 0))
