"""PyTorch: NaN or infinity in a key or value that the mask hides reaches the output: 0 · NaN and NaN - inf are NaN.

flex_attention and the formula written out replace hidden logits, so there it is hidden values only.
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
    "written out": lambda q, k, v: (q @ k.mT).masked_fill(~visible, -torch.inf).softmax(-1) @ v,
}
seen: dict[str, list[bool]] = {name: [] for name in ways}
with torch.no_grad():
    for name, way in ways.items():
        for poisoned in (1, 2):
            for hidden in (torch.nan, torch.inf):
                inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
                inputs[poisoned][:, :, 2] = hidden
                seen[name].append(bool(way(*inputs).isfinite().all()))
                where = ("query", "key", "value")[poisoned]
                print(f"{name}, {hidden} in a hidden {where}: output finite: {seen[name][-1]}")
sys.exit(int(list(seen.values()) == 2 * [[False] * 4] + 2 * [[True, True, False, False]]))
