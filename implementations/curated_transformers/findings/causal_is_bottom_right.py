"""Curated Transformers: with more keys than queries the causal mask is cut from the lower right of the square one."""

import sys

import torch
from curated_transformers.layers.attention import create_causal_mask

mask = create_causal_mask(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 4, 4)).bool_mask[0, 0]
print(f"two queries, four keys:\n{mask.int()}")
sys.exit(int(bool(mask[0, 2])))
