"""mlx.core.fast.scaled_dot_product_attention on CPU: a logit beyond 65504 makes the output NaN in float16."""

import math
import sys

import mlx.core as mx

mx.set_default_device(mx.cpu)
seen = {}
for dtype in (mx.float32, mx.float16):
    query = key = mx.full((1, 1, 1, 4), 240, dtype=dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
    value = mx.full((1, 1, 1, 4), 3, dtype=dtype)
    seen[dtype] = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5).max().item()
    print(f"{dtype}: with one key and a logit of 115,200 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen[mx.float32] == 3 and math.isnan(seen[mx.float16])))
