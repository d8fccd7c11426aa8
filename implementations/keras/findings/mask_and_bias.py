"""keras.ops.dot_product_attention: a mask and a bias together are refused on PyTorch and taken elsewhere."""

import sys

import keras
import numpy as np
from keras import ops

ones = np.ones((1, 2, 1, 4), np.float32)  # (B,T,H,D)
mask, bias = np.ones((1, 1, 2, 2), bool), np.zeros((1, 1, 2, 2), np.float32)
try:
    ops.dot_product_attention(ones, ones, ones, mask=mask, bias=bias)
    print(f"{keras.backend.backend()}: accepted")
    sys.exit(0)
except ValueError as error:
    print(f"{keras.backend.backend()}: {error}")
    sys.exit(1)
