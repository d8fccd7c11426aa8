"""local-attention: autopad=True lets queries near the end attend to the padding, unless attention is causal.

The zeros that fill up the last window count as keys: their logit is 0, and rows of weights no longer sum to one.
"""

import sys

import torch
from local_attention import LocalAttention

torch.manual_seed(0)
query, key, value = torch.randn(1, 5, 4), torch.randn(1, 5, 4), torch.ones(1, 5, 1)  # values that are all one
given = {"look_backward": 1, "look_forward": 1, "autopad": True, "exact_windowsize": True}
sums = LocalAttention(2, **given)(query, key, value).flatten()
print("window_size=2, 5 positions; rows of weights sum to", [round(float(row), 3) for row in sums])
masked = LocalAttention(2, **given)(query, key, value, mask=torch.ones(1, 5, dtype=torch.bool)).flatten()
print("given a mask that shows all five:                 ", [round(float(row), 3) for row in masked])
sys.exit(int(sums.min() < 0.99))
