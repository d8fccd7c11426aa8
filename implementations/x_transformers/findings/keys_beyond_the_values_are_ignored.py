"""x-transformers: with fewer values than keys, Attend(flash=True) on CPU answers as if the other keys were not there."""

import sys

import torch
from x_transformers.attend import Attend

query, key = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 3, 4)
value = torch.tensor([1.0, 2.0])[:, None].expand(2, 4).contiguous()[None, None]
output = float(Attend(flash=True)(query, key, value)[0].flatten()[0])
raised = ""
try:
    Attend(flash=False)(query, key, value)
except RuntimeError as error:
    raised = str(error)
print(f"three equal keys, the values 1 and 2: flash gives {output}, the mean of two; written out: {raised or 'answers'}")
sys.exit(int(output == 1.5 and bool(raised)))
