"""x-transformers: NaN or infinity in what a mask hides reaches the output.

A hidden value always; a hidden key with flash only, since the form that is written out replaces hidden logits.
"""

import sys

import torch
from x_transformers.attend import Attend

torch.manual_seed(0)
mask = torch.tensor([True, True, False]).reshape(1, 1, 1, 3)  # the last key is hidden
finite = []
for flash in (False, True):
    for poisoned in (1, 2):
        for poison in (float("nan"), float("inf")):
            inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
            inputs[poisoned][:, :, 2] = poison
            finite.append(bool(Attend(flash=flash)(*inputs, mask=mask)[0].isfinite().all()))
            print(f"flash={flash}, {poison} in a hidden {('key', 'value')[poisoned - 1]}: output finite: {finite[-1]}")
sys.exit(int(finite == [True] * 2 + [False] * 6))
