"""paddle.nn.functional.scaled_dot_product_attention: with is_causal the mask is ignored."""

import sys

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

zeros = paddle.zeros([1, 3, 1, 3])  # (B,T,H,D)
value = paddle.to_tensor(np.eye(3, dtype="f4")[None, :, None])
mask = paddle.to_tensor(np.array([[[[True, False, True]] * 3]]))  # nobody may see the second key
weights = scaled_dot_product_attention(zeros, zeros, value, attn_mask=mask, is_causal=True)[0, :, 0].numpy()
print("weights under is_causal=True and a mask that hides the second key:")
print(weights.round(3))
sys.exit(int(weights[1, 1] > 0.1))
