"""tinygrad: NaN or infinity in a value that no query may see reaches the output, as 0 · NaN."""

import sys

import numpy as np
from tinygrad import Tensor

ones = Tensor(np.ones((1, 1, 2, 4), np.float32), device="CPU")
mask = Tensor(np.array([[[[True, False], [True, False]]]]), device="CPU")  # the second key is hidden
reached = []
for poison in (np.nan, np.inf):
    value = np.ones((1, 1, 2, 4), np.float32)
    value[0, 0, 1] = poison
    output = ones.scaled_dot_product_attention(ones, Tensor(value, device="CPU"), attn_mask=mask).numpy()
    print(f"with {poison} in the hidden value the output is {output[0, 0, 0]}; without it, ones")
    reached.append(bool(np.isnan(output).any()))
sys.exit(int(all(reached)))
