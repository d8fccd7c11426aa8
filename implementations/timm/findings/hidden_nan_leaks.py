"""timm: NaN or infinity in a position that the mask hides reaches all others, fused or not.

timm imports torchvision, so this needs it installed.
"""

import sys

import torch
from timm.layers import Attention

torch.manual_seed(0)
layer = Attention(8, 2).eval()
mask = torch.tensor([True, True, False]).expand(3, 3)  # the last position is hidden from all
x = torch.randn(1, 3, 8)
seen = []
with torch.no_grad():
    for poison in (torch.nan, torch.inf):
        x[:, 2] = poison
        for fused in (True, False):
            layer.fused_attn = fused
            output = layer(x, attn_mask=mask)[:, :2]
            seen.append(not output.isfinite().any())
            print(f"fused={fused}, {poison} in the hidden position: no entry of the visible ones is finite: {seen[-1]}")
sys.exit(int(all(seen)))
