"""Paddle on CPU: is_causal lowers later logits by 10,000, so a key of a logit that much higher is seen too early."""

import sys

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

key, value = (paddle.to_tensor(np.array(each, "float32").reshape(1, 2, 1, 1)) for each in ([-1, 0], [1, 2]))
triangle = paddle.to_tensor(np.tri(2, dtype=bool)[None, None])
first = {}
for gap in (9_000, 11_000):  # the first query's own logit is so much lower than that of the key after it
    query = paddle.full([1, 2, 1, 1], gap, "float32")
    first[gap] = [float(scaled_dot_product_attention(query, key, value, **how)[0, 0, 0, 0])
                  for how in ({"is_causal": True}, {"attn_mask": triangle})]
    print(f"logits of -{gap} and 0: is_causal gives the first query {first[gap][0]}, the mask {first[gap][1]}; 1 is right")
sys.exit(int(first == {9_000: [1, 1], 11_000: [2, 1]}))
