"""vit-pytorch: with one head as wide as the model, vit.Attention leaves its output projection out.

vit-pytorch imports torchvision, so this needs it installed.
"""

import sys

from torch import nn
from vit_pytorch.simple_vit import Attention as SimpleAttention
from vit_pytorch.vit import Attention

found = {}
for heads, width in ((2, 8), (1, 16), (1, 8)):
    found[heads, width] = type(Attention(16, heads=heads, dim_head=width).to_out)
    print(f"model of 16, {heads} head(s) of {width}: to_out is {found[heads, width].__name__}")
print("simple_vit, 1 head of 16: to_out is", type(SimpleAttention(16, heads=1, dim_head=16).to_out).__name__)
sys.exit(int(found[1, 16] is nn.Identity and found[2, 8] is not nn.Identity))
