"""timm: a query that may attend to nothing gets zeros where attention is fused, and NaN where it is written out.

timm imports torchvision, so this needs it installed.
"""

import sys

import torch
from timm.layers import Attention

torch.manual_seed(0)
layer = Attention(8, 2, proj_bias=False).eval()
x, mask = torch.randn(1, 3, 8), torch.ones(3, 3, dtype=torch.bool)
mask[1] = False  # the second query sees nothing
found = {}
with torch.no_grad():
    for fused in (True, False):
        layer.fused_attn = fused
        found[fused] = layer(x, attn_mask=mask)[0, 1]
        print(f"fused={fused}: {found[fused].tolist()}")
sys.exit(int(bool(found[False].isnan().all() and (found[True] == 0).all())))
