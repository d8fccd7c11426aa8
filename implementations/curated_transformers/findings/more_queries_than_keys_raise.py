"""Curated Transformers: with more queries than keys the causal mask has the wrong shape: it raises or hides nothing."""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention
from curated_transformers.layers.attention import create_causal_mask

query, key = torch.zeros(1, 1, 6, 4), torch.zeros(1, 1, 4, 4)
print(f"create_causal_mask for 6 queries and 4 keys: {tuple(create_causal_mask(query, key).shape)}")
print(f"create_causal_mask for 5 queries and 4 keys: {create_causal_mask(query[:, :, :5], key).bool_mask[0, 0].int()}")
scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
everything = AttentionMask(torch.ones(1, 4, dtype=torch.bool))
try:
    scorer(query=query, key=key, value=key, attention_mask=everything, use_causal_mask=True)
except RuntimeError as raised:
    print(f"RuntimeError: {raised}")
    sys.exit(1)
sys.exit(0)
