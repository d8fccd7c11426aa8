"""diffusers: with AttnProcessor, a logit beyond 65504 makes the output NaN in float16.

With AttnProcessor2_0, or with upcast_attention, it does not.
"""

import math
import sys

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0


def output(dtype: torch.dtype, processor: type, **more: bool) -> float:
    """Of one token: the value is 3, query and key are 240, so that the logit is 240 · 240 · 4 / sqrt(4) = 115,200."""
    layer = Attention(4, heads=1, dim_head=4, processor=processor(), **more).to(dtype)
    with torch.no_grad():
        for linear, entry in ((layer.to_q, 80), (layer.to_k, 80), (layer.to_v, 1), (layer.to_out[0], 1)):
            linear.weight.copy_(entry * torch.eye(4))
        layer.to_out[0].bias.zero_()
        return float(layer(torch.full((1, 1, 4), 3, dtype=dtype)).max())


seen = output(torch.float16, AttnProcessor)
others = {"AttnProcessor in float32": output(torch.float32, AttnProcessor),
          "AttnProcessor2_0 in float16": output(torch.float16, AttnProcessor2_0),
          "AttnProcessor in float16, upcast_attention": output(torch.float16, AttnProcessor, upcast_attention=True)}
for name, answer in {"AttnProcessor in float16": seen, **others}.items():
    print(f"{name}: with one key and a logit of 115,200 the output is {answer}; it should be the value, 3")
sys.exit(int(set(others.values()) == {3} and math.isnan(seen)))
