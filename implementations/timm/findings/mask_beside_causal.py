"""timm: with is_causal=True a mask is applied too where attention is fused, and dropped where it is written out.

timm imports torchvision, so this needs it installed.
"""

import sys

import torch
from timm.layers import Attention

torch.manual_seed(0)
layer = Attention(8, 2, qkv_bias=True).eval()
x = torch.randn(1, 4, 8)
mask = torch.tensor([True, False, True, True]).expand(4, 4)
both = mask.tril() | torch.eye(4, dtype=torch.bool)[:1]  # what mask and triangle leave visible; every row sees key 0
gaps = {}
with torch.no_grad():
    for fused in (True, False):
        layer.fused_attn = fused
        together = layer(x, attn_mask=mask, is_causal=True)
        gaps[fused] = [float((together - other).abs().max())
                       for other in (layer(x, attn_mask=both), layer(x, is_causal=True))]
        print(f"fused={fused}: {gaps[fused][0]:.2g} from both applied, {gaps[fused][1]:.2g} from the flag alone")
sys.exit(int(gaps[True][0] < 1e-5 < gaps[True][1] and gaps[False][1] < 1e-5 < gaps[False][0]))
