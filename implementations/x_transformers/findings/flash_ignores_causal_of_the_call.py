"""x-transformers: Attend.forward(..., causal=True) is silently ignored with flash=True; written out it is honoured."""

import sys

import torch
from x_transformers.attend import Attend

torch.manual_seed(0)
query, key = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
value = torch.eye(4)[None, None]  # so that the output is the weights
later = {}
for flash in (False, True):
    weights = Attend(flash=flash)(query, key, value, causal=True)[0][0, 0]
    later[flash] = float(weights.triu(1).max())
    print(f"flash={flash}: the largest weight of a later key is {later[flash]:.2g}")
sys.exit(int(later[True] > 0 == later[False]))
