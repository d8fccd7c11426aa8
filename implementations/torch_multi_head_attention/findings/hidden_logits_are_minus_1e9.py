"""torch-multi-head-attention: a hidden logit becomes -1e9, which wins where all visible ones are lower still."""

import sys

import torch
from torch_multi_head_attention import ScaledDotProductAttention

query, key = torch.full((1, 1, 1), -1e5), torch.tensor([[[1e5], [1e5]]])
value = torch.eye(2)[None]  # so that the output is the weights
weights = ScaledDotProductAttention()(query, key, value, torch.tensor([[[1, 0]]]))
print("both logits are -1e10, the second key is hidden; weights:", weights.flatten().tolist())
sys.exit(int(weights[0, 0, 1] > 0.5))
