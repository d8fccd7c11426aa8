"""vit-pytorch: vit.Attention and simple_vit.Attention give NaN in float16 if a logit is beyond 65504.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
vit-pytorch imports torchvision, so this needs it installed.
"""

import math
import sys

import torch
from torch import nn
from vit_pytorch.simple_vit import Attention as SimpleAttention
from vit_pytorch.vit import Attention


def output(kind: type[nn.Module], dtype: torch.dtype, D: int, entry: int) -> float:
    """Of one token: the value is 3, query and key are `entry`. The layer's norm is left out."""
    layer = kind(D, heads=1, dim_head=D).eval().to(dtype)
    layer.norm = nn.Identity()
    with torch.no_grad():
        layer.to_qkv.weight.copy_(torch.cat([entry / 3 * torch.eye(D)] * 2 + [torch.eye(D)]))
        if isinstance(layer.to_out, nn.Linear):
            layer.to_out.weight.copy_(torch.eye(D))
        return float(layer(torch.full((1, 1, D), 3, dtype=dtype)).max())


holds = []
for kind in (Attention, SimpleAttention):
    for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
        single, half = (output(kind, dtype, D, entry) for dtype in (torch.float32, torch.float16))
        print(f"{kind.__module__}, one key, value 3, logit {entry**2 * D**0.5:,.0f}: float32 {single}, float16 {half}")
        holds.append(single == 3 and math.isnan(half))
sys.exit(int(all(holds)))
