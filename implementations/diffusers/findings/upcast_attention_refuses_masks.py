"""diffusers: upcast_attention=True in half precision raises as soon as there is a mask.

Query and key become float32, the mask that seeds the product stays half, and baddbmm wants them alike.
"""

import sys

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor

raised = {}
for dtype in (torch.float32, torch.float16):
    layer = Attention(8, heads=2, dim_head=4, upcast_attention=True, processor=AttnProcessor()).to(dtype)
    x, mask = torch.randn(1, 3, 8, dtype=dtype), torch.zeros(1, 3, 3, dtype=dtype)
    try:
        layer(x)
        layer(x, attention_mask=mask)
    except RuntimeError as error:
        raised[dtype] = str(error)
    print(f"{dtype}: {raised.get(dtype, 'answers')}")
sys.exit(int(torch.float16 in raised and torch.float32 not in raised))
