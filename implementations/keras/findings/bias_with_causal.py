"""keras.ops.dot_product_attention on PyTorch: a bias together with is_causal is refused for some sizes."""

import sys

import keras
import numpy as np
from keras import ops

refused = []
for width in (4, 6):  # of the values; keys have 4
    ones, value = np.ones((1, 2, 1, 4), np.float32), np.ones((1, 2, 1, width), np.float32)  # (B,T,H,D)
    bias = np.zeros((1, 1, 2, 2), np.float32)
    try:
        ops.dot_product_attention(ones, ones, value, bias=bias, is_causal=True)
        print(f"{keras.backend.backend()}, values of width {width}: accepted")
    except (RuntimeError, TypeError) as error:
        refused.append(width)
        print(f"{keras.backend.backend()}, values of width {width}: {error}")
sys.exit(int(bool(refused)))
