"""diffusers: NaN or infinity in a context position that the mask hides reaches the output, with either processor."""

import sys

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0

torch.manual_seed(0)
mask = torch.tensor([0.0, 0.0, -torch.inf]).expand(2, 3, 3)  # the last position is hidden from all
seen = False
for processor in (AttnProcessor, AttnProcessor2_0):
    layer = Attention(8, cross_attention_dim=8, heads=2, dim_head=4, processor=processor())
    context = torch.randn(1, 3, 8)
    context[:, 2] = torch.nan
    output = layer(torch.randn(1, 3, 8), encoder_hidden_states=context, attention_mask=mask)
    print(f"{processor.__name__}: output finite: {bool(output.isfinite().all())}")
    seen |= not output.isfinite().all()
sys.exit(int(seen))
