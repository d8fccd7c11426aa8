"""local-attention: a query that may attend to nothing averages its buckets, with the -1 that they are padded with."""

import sys

import torch
from local_attention import LocalAttention

torch.manual_seed(0)
query, key, value = torch.randn(1, 4, 4), torch.randn(1, 4, 4), torch.ones(1, 4, 1)  # values that are all one
hidden = torch.zeros(1, 4, dtype=torch.bool)
output = LocalAttention(2, look_backward=1, look_forward=1, exact_windowsize=True)(query, key, value, mask=hidden)
print("every value is 1, every key hidden; output:", output.flatten().tolist())
sys.exit(int(output.min() < 1))
