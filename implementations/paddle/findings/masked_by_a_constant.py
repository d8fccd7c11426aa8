"""paddle.nn.MultiHeadAttention: a boolean mask adds -1e9, so a masked key wins against a visible logit below that."""

import sys

import numpy as np
import paddle
from paddle import nn

layer = nn.MultiHeadAttention(1, 1, need_weights=True)
for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
    projection.weight.set_value(np.ones((1, 1), "float32"))
query, key = (paddle.to_tensor(np.array(rows, "float32").reshape(1, -1, 1)) for rows in ([1e5], [-1e5, 0]))
mask = paddle.to_tensor(np.array([[[[True, False]]]]))  # the only visible logit is -1e10
weights = layer(query, key, key, attn_mask=mask)[1].numpy().ravel()
print(f"weights {weights}; the second key is masked, so they should be 1 and 0")
sys.exit(int(weights[1] == 1))
