"""memory-efficient-attention-pytorch in float16: a logit beyond 65504 makes the output NaN, from both functions."""

import math
import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

holds = []
for attend in (attention, memory_efficient_attention):
    seen = {}
    for dtype in (torch.float32, torch.float16):
        query = key = torch.full((1, 1, 1, 4), 240, dtype=dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
        seen[dtype] = float(attend(query, key, torch.full_like(query, 3)).max())
        print(f"{attend.__name__}, {dtype}, one key, logit 115,200: {seen[dtype]}; it should be the value, 3")
    holds.append(abs(seen[torch.float32] - 3) < 1e-6 and math.isnan(seen[torch.float16]))
sys.exit(int(all(holds)))
