"""x-transformers, causal and not flash: a query that a mask leaves no key before it attends to all keys, later ones too.

Masked and later keys get the same number, the lowest; only a row that is masked throughout is made zero.
"""

import sys

import torch
from x_transformers.attend import Attend

query = key = torch.zeros(1, 1, 3, 2)
value = torch.eye(3)[None, None]  # so that the output is the weights
mask = torch.tensor([[[[False, True, True]]]])  # the first key is padding, and so the first query may attend to none
weights = Attend(causal=True)(query, key, value, mask=mask)[0][0, 0]
print("weights of 3 queries on 3 keys, all alike, of which the first is hidden, with causal=True:")
print(weights)
sys.exit(int(bool((weights[0] > 0.3).all() and weights[1, 2] == 0)))
