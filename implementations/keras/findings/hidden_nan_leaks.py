"""keras.ops.dot_product_attention: NaN or infinity in a value that no query may see reaches the output."""

import sys

import keras
import numpy as np
from keras import ops

ones = np.ones((1, 2, 1, 4), np.float32)  # (B,T,H,D)
mask = np.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for poison in (np.nan, np.inf):
    value = ones.copy()
    value[0, 1] = poison
    output = ops.convert_to_numpy(ops.dot_product_attention(ones, ones, value, mask=mask))
    print(f"{keras.backend.backend()}: with {poison} in the hidden value the output is {output[0, 0, 0]}; else ones")
    reached.append(bool(np.isnan(output).any()))
sys.exit(int(all(reached)))
