"""Curated Transformers: within enable_torch_sdp a scorer that trains asks for an attribute that it has not."""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention
from curated_transformers.layers.attention import enable_torch_sdp

scorer = ScaledDotProductAttention(dropout_prob=0.1, linear_biases=None).train()
ones = torch.ones(1, 1, 2, 4)
try:
    with enable_torch_sdp():
        scorer(query=ones, key=ones, value=ones, attention_mask=AttentionMask(torch.ones(1, 2, dtype=torch.bool)),
               use_causal_mask=False)
except AttributeError as raised:
    print(f"AttributeError: {raised}")
    sys.exit(1)
sys.exit(0)
