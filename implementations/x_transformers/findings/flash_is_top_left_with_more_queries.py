"""x-transformers: with more queries than keys, a causal Attend aligns its mask otherwise with flash than without.

Written out, the mask is aligned to the bottom right, and with fewer queries than keys it is with flash, too.
"""

import sys

import torch
from x_transformers.attend import Attend

torch.manual_seed(0)
seen = False
for T, S in ((2, 4), (4, 4), (4, 2)):
    query, key = torch.randn(1, 1, T, 8), torch.randn(1, 1, S, 8)
    value = torch.eye(S)[None, None]  # so that the output is the weights
    written, flash = (Attend(causal=True, flash=flash)(query, key, value)[0][0, 0] for flash in (False, True))
    gap = float((written - flash)[max(T - S, 0):].abs().max())  # rows that see a key in either case
    print(f"{T} queries, {S} keys: flash and not differ by {gap:.2g}")
    print("  keys seen by each query:", [int(row) for row in (flash > 0).sum(1)], "with flash,",
          [int(row) for row in (written > 0).sum(1)], "without")
    seen |= gap > 1e-3
sys.exit(int(seen))
