"""PyTorch: NaN in a key or value that the mask hides reaches the output (0 times NaN is NaN; -inf plus NaN is NaN).

flex_attention replaces hidden logits, so there it is hidden values only.
"""

import sys
from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
visible = torch.tensor([True, True, False]).expand(3, 3)  # the last key is hidden from all
layer = nn.MultiheadAttention(8, 1, batch_first=True)
blocks = create_block_mask(lambda _b, _h, i, j: visible[i, j], None, None, 3, 3, device="cpu")
ways: dict[str, Any] = {
    "scaled_dot_product_attention": lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=visible),
    "nn.MultiheadAttention": lambda q, k, v: layer(q[0], k[0], v[0], attn_mask=~visible)[0],
    "flex_attention": lambda q, k, v: flex_attention(q, k, v, block_mask=blocks),
}
seen = False
with torch.no_grad():
    for name, way in ways.items():
        for poisoned in (1, 2):
            inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
            inputs[poisoned][:, :, 2] = torch.nan
            is_finite = bool(way(*inputs).isfinite().all())
            print(f"{name}, NaN in a hidden {('query', 'key', 'value')[poisoned]}: output finite: {is_finite}")
            seen |= not is_finite
sys.exit(int(seen))
