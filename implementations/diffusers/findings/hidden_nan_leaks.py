"""diffusers: NaN or infinity in a context position that the mask hides reaches the output, with either processor.

The mask hides as those of its models do: by a bias of -10000.
"""

import sys

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0

torch.manual_seed(0)
mask = torch.tensor([0.0, 0.0, -10000.0]).expand(2, 3, 3)  # the last position is hidden from all
seen = []
for processor in (AttnProcessor, AttnProcessor2_0):
    layer = Attention(8, cross_attention_dim=8, heads=2, dim_head=4, processor=processor())
    for hidden in (1e4, torch.nan, torch.inf):
        context = torch.randn(1, 3, 8)
        context[:, 2] = hidden
        output = layer(torch.randn(1, 3, 8), encoder_hidden_states=context, attention_mask=mask)
        seen.append(bool(output.isfinite().all()))
        print(f"{processor.__name__}, {hidden} in the hidden position: output finite: {seen[-1]}")
sys.exit(int(seen == [True, False, False] * 2))
