"""PyTorch: a mask beside is_causal is applied too, or refused, by the kernel, which depends on widths and gradients."""

import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
mask = torch.tensor([True, False, True, True]).expand(4, 4)
seen = []
for width in (8, 4):  # of the values; that of queries and keys is 8
    query, key, value = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, width)
    both = scaled_dot_product_attention(query, key, value, attn_mask=mask.tril())
    try:
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=True)
        seen.append("both applied" if torch.allclose(output, both) else "something else")
    except RuntimeError as error:
        seen.append(f"refused: {error}")
    print(f"values of width {width}:", seen[-1])
sys.exit(int(seen[0] == "both applied" and seen[1].startswith("refused")))
