"""timm: a logit beyond 65504 makes the output of the eager path NaN in float16; the fused kernel gives the answer.

timm imports torchvision, so this needs it installed.
"""

import math
import sys

import torch
from timm.layers import Attention

seen = {}
with torch.no_grad():
    for dtype, fused in ((torch.float32, False), (torch.float16, True), (torch.float16, False)):
        layer = Attention(4, 1).eval().to(dtype)
        layer.fused_attn = fused
        layer.qkv.weight.copy_(torch.cat([80 * torch.eye(4), 80 * torch.eye(4), torch.eye(4)]))
        layer.proj.weight.copy_(torch.eye(4))
        layer.proj.bias.zero_()
        answer = layer(torch.full((1, 1, 4), 3, dtype=dtype))  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
        seen[dtype, fused] = float(answer.max())
        print(f"{dtype}, fused={fused}: the output is {seen[dtype, fused]}; with one key it should be its value, 3")
*right, eager = seen.values()
sys.exit(int(right == [3, 3] and math.isnan(eager)))
