"""torch-multi-head-attention: a query that may attend to nothing averages all values, the hidden ones."""

import sys

import torch
from torch_multi_head_attention import ScaledDotProductAttention

torch.manual_seed(0)
query, key, value = torch.randn(1, 1, 8), torch.randn(1, 3, 8), torch.eye(3)[None]
weights = ScaledDotProductAttention()(query, key, value, torch.zeros(1, 1, 3))
print("weights of a row with nothing to see:", weights.flatten().tolist())
sys.exit(int(torch.allclose(weights, torch.full((1, 1, 3), 1 / 3))))
