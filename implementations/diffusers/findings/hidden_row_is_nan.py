"""diffusers: with AttnProcessor a query that may attend to nothing is NaN; with AttnProcessor2_0 it gets zeros."""

import sys

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0

torch.manual_seed(0)
x, mask = torch.randn(1, 2, 8), torch.zeros(2, 2, 2)
mask[:, 0] = -torch.inf  # the first query sees nothing
found = {}
for processor in (AttnProcessor, AttnProcessor2_0):
    torch.manual_seed(0)
    layer = Attention(8, heads=2, dim_head=4, out_bias=False, processor=processor())
    found[processor] = layer(x, attention_mask=mask)[0, 0]
    print(f"{processor.__name__}: {found[processor].tolist()}")
sys.exit(int(bool(found[AttnProcessor].isnan().all())))
