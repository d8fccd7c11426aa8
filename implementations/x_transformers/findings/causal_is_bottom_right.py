"""x-transformers: with fewer queries than keys, the causal mask ends at the last query and the last key."""

import sys

import torch
from x_transformers.attend import Attend

query, key, value = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4), torch.eye(5)[None, None]
seen = [int(row) for row in (Attend(causal=True)(query, key, value)[0][0, 0] > 0).sum(-1)]
print("keys that the two queries see of five:", seen)
sys.exit(int(seen == [4, 5]))
