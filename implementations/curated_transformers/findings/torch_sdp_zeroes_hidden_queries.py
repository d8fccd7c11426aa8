"""Curated Transformers: within enable_torch_sdp the row of a query is zero where its own key is hidden."""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention
from curated_transformers.layers.attention import enable_torch_sdp

torch.manual_seed(0)
scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
arrays = {name: torch.randn(1, 1, 2, 4) for name in ("query", "key", "value")}
mask = AttentionMask(torch.tensor([[True, False]]))  # the second key is hidden; both queries may see the first
plain = scorer(**arrays, attention_mask=mask, use_causal_mask=False)
with enable_torch_sdp():
    fused = scorer(**arrays, attention_mask=mask, use_causal_mask=False)
print(f"second row: {plain[0, 0, 1]} written out, {fused[0, 0, 1]} within enable_torch_sdp")
print(f"the value that it may see: {arrays['value'][0, 0, 0]}")
sys.exit(int(not torch.allclose(plain, fused)))
