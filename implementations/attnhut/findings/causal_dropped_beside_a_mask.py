"""attnhut: StandardAttention(causal=True) lets queries see later keys as soon as it is given any attn_mask."""

import sys

import torch
from attnhut import GroupedQueryAttention, StandardAttention

torch.manual_seed(0)
x = torch.randn(1, 4, 8)
later = x.clone()
later[:, 3] += 1  # a later position, which the first query must not see
seen = False
for layer in (StandardAttention(8, 2, causal=True), GroupedQueryAttention(8, 2, 2, causal=True)):
    for name, mask in (("no mask", None), ("a mask that shows all", torch.ones(4, 4, dtype=torch.bool))):
        moved = float((layer(x, attn_mask=mask) - layer(later, attn_mask=mask))[:, 0].abs().max())
        print(f"{type(layer).__name__}(causal=True), {name}: moving the last token moves the first row by {moved:.2g}")
        seen |= mask is not None and moved > 0
sys.exit(int(seen))
