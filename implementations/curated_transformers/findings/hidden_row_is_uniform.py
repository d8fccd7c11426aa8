"""Curated Transformers: a query that may see no key gets the mean of all values."""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention

scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
ones, value = torch.ones(1, 1, 3, 1), torch.tensor([[[[1.0], [2.0], [6.0]]]])
output = scorer(query=ones, key=ones, value=value, attention_mask=AttentionMask(torch.zeros(1, 3, dtype=torch.bool)),
                use_causal_mask=False)
print(f"values 1, 2, 6, all hidden: {output.flatten()}")
sys.exit(int(bool((output == 3).all())))
