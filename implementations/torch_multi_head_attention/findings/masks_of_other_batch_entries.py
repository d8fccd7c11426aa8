"""torch-multi-head-attention: with two heads and more, batch entries are masked by each other's masks.

It repeats the masks b0 b1 b0 b1, but lays out the heads b0 b0 b1 b1.
"""

import sys

import torch
from torch_multi_head_attention import MultiHeadAttention

torch.manual_seed(0)
layer = MultiHeadAttention(8, 2, activation=None)
x = torch.randn(2, 3, 8)
mask = torch.ones(2, 3, 3)
mask[1, :, 2] = 0  # the last position is hidden in the second batch entry only
seen = False
for entry in (0, 1):
    gap = float((layer(x, x, x, mask)[entry] - layer(x[[entry]], x[[entry]], x[[entry]], mask[[entry]])[0]).abs().max())
    print(f"batch entry {entry}, in the batch and alone: {gap:.2g} apart")
    seen |= gap > 1e-4
moved = x.clone()
moved[1, 2] += 1
gap = float((layer(moved, moved, moved, mask) - layer(x, x, x, mask))[1, :2].abs().max())
print(f"moving the hidden position moves the others of its entry by {gap:.2g}")
sys.exit(int(seen))
