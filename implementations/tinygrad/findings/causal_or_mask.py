"""tinygrad: a mask and is_causal together are refused."""

import sys

import numpy as np
from tinygrad import Tensor

ones = Tensor(np.ones((1, 1, 2, 4), np.float32), device="CPU")
mask = Tensor(np.ones((1, 1, 2, 2), bool), device="CPU")
try:
    ones.scaled_dot_product_attention(ones, ones, attn_mask=mask, is_causal=True).numpy()
    print("mask and is_causal: accepted")
    sys.exit(0)
except RuntimeError as error:
    print(f"mask and is_causal: {error}")
    sys.exit(1)
