"""x-transformers: NaN or infinity in what a mask hides reaches the output.

A hidden value always; a hidden key with flash only, since the form that is written out replaces hidden logits.
"""

import sys

import torch
from x_transformers.attend import Attend

torch.manual_seed(0)
mask = torch.tensor([True, True, False]).reshape(1, 1, 1, 3)  # the last key is hidden
seen = False
for flash in (False, True):
    for poisoned in (1, 2):
        inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
        inputs[poisoned][:, :, 2] = float("nan")
        output = Attend(flash=flash)(*inputs, mask=mask)[0]
        is_finite = bool(output.isfinite().all())
        print(f"flash={flash}, NaN in a hidden {('query', 'key', 'value')[poisoned]}: output finite: {is_finite}")
        seen |= not is_finite
sys.exit(int(seen))
