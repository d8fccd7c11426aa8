"""paddle: NaN or infinity in a value that no query may see reaches the output."""

import sys

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

ones = paddle.ones([1, 2, 1, 4])  # (B,T,H,D)
mask = paddle.to_tensor(np.array([[[[True, False], [True, False]]]]))  # the second key is hidden
reached = []
for poison in (float("nan"), float("inf")):
    value = np.ones((1, 2, 1, 4), np.float32)
    value[0, 1] = poison
    output = scaled_dot_product_attention(ones, ones, paddle.to_tensor(value), attn_mask=mask).numpy()
    print(f"with {poison} in the hidden value the output is {output[0, 0, 0]}; without it, ones")
    reached.append(not np.isfinite(output).any())
sys.exit(int(all(reached)))
