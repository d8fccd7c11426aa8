"""memory-efficient-attention-pytorch: a query that may attend to nothing averages all values, hidden ones too."""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

torch.manual_seed(0)
query, key, value = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 4, 8), torch.eye(4)[None, None]
seen = True
for attend in (attention, memory_efficient_attention):
    weights = attend(query, key, value, mask=torch.zeros(1, 4, dtype=torch.bool)).flatten()
    print(f"{attend.__name__}: weights of a row with nothing to see: {weights.tolist()}")
    seen &= torch.allclose(weights, torch.full((4,), 0.25))
sys.exit(int(seen))
