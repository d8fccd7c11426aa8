"""attnhut: a NaN or an infinity in a key or value that the mask hides reaches the output (0 times NaN is NaN)."""

import sys

import torch
from attnhut import StandardAttention

torch.manual_seed(0)
layer = StandardAttention(8, 2)
mask = torch.tensor([True, True, False]).expand(3, 3)  # the last key is hidden from all
seen = []
for poison in (float("nan"), float("inf")):
    x = torch.randn(1, 3, 8)
    x[:, 2] = poison
    output = layer(x, attn_mask=mask)[:, :2]  # rows of the first two positions
    print(f"{poison} at the hidden position: {int((~output.isfinite()).sum())} of {output.numel()} entries not finite")
    seen.append(not output.isfinite().all())
sys.exit(int(all(seen)))
