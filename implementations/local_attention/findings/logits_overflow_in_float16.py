"""local-attention in float16: a logit beyond 65504 makes the output NaN."""

import math
import sys

import torch
from local_attention import LocalAttention

attend = LocalAttention(1, look_backward=0)  # a window of one key, so the output is its value
seen = {}
for dtype in (torch.float32, torch.float16):
    query = key = torch.full((1, 1, 4), 240, dtype=dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
    seen[dtype] = float(attend(query, key, torch.full_like(query, 3)).max())
    print(f"{dtype}: with one key and a logit of 115,200 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen[torch.float32] == 3 and math.isnan(seen[torch.float16])))
