"""PyTorch on CUDA: the flash kernel gives NaN where the scale is 0 or negative.

It fills its last block of keys up with logits of -inf, and scales them afterwards: 0 times -inf is NaN, -1 times it +inf.
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
seen = False
for length in (33, 256):
    query, key, value = (torch.randn(1, 1, length, 64, dtype=torch.float16, device="cuda") for _ in range(3))
    for scale in (0.5, 0.0, -0.5):
        with sdpa_kernel(SDPBackend.MATH):
            right = scaled_dot_product_attention(query, key, value, scale=scale)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            flash = scaled_dot_product_attention(query, key, value, scale=scale)
        print(f"{length} keys, scale {scale}: {int(flash.isnan().sum())} of {flash.numel()} entries are NaN; "
              f"by the math kernel {int(right.isnan().sum())}")
        seen |= bool((flash.isnan() & ~right.isnan()).any())
sys.exit(int(seen))
