"""PyTorch: on CPU, scaled_dot_product_attention with is_causal is wrong where the scale is not positive.

The flash kernel sets hidden logits to -inf before it scales them: 0 times -inf is NaN, and -1 times -inf is +inf.
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
query, key, value = (torch.randn(1, 1, 33, 8) for _ in range(3))
seen = False
for scale in (0.5, 0.0, -0.5):
    with sdpa_kernel(SDPBackend.MATH):
        right = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    flash = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    wrong = ~torch.isclose(flash, right, atol=1e-4)
    print(f"scale {scale}: {int(wrong.sum())} of {wrong.numel()} entries are not those of the math kernel, "
          f"{int(flash.isnan().sum())} are NaN")
    seen |= bool(wrong.any())
sys.exit(int(seen))
