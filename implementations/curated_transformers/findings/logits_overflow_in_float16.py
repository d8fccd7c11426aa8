"""Curated Transformers: a logit beyond 65504 makes the output NaN in float16; within enable_torch_sdp it does not.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
"""

import math
import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention, enable_torch_sdp

scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
mask = AttentionMask(torch.tensor([[True]]))
holds = []
for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
    seen = {}
    for dtype, fused in ((torch.float32, False), (torch.float16, False), (torch.float16, True)):
        query = key = torch.full((1, 1, 1, D), entry, dtype=dtype)
        arrays = {"query": query, "key": key, "value": torch.full_like(query, 3)}
        with enable_torch_sdp(use_torch_sdp=fused):
            seen[dtype, fused] = float(scorer(**arrays, attention_mask=mask, use_causal_mask=False).max())
        print(f"{dtype}, torch_sdp {fused}, one key, value 3, logit {entry**2 * D**0.5:,.0f}: {seen[dtype, fused]}")
    holds.append(list(seen.values())[::2] == [3, 3] and math.isnan(seen[torch.float16, False]))
sys.exit(int(all(holds)))
