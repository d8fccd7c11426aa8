"""tinygrad: NaN or infinity in a key or value that no query may see reaches the output: the mask adds -inf to logits."""

import sys

import numpy as np
from tinygrad import Tensor

mask = Tensor(np.array([[[[True, False], [True, False]]]]), device="CPU")  # the second key is hidden
reached = []
for place in (1, 2):
    for poison in (np.nan, np.inf):
        arrays = [np.ones((1, 1, 2, 4), np.float32) for _ in range(3)]
        arrays[place][0, 0, 1] = poison
        query, key, value = (Tensor(array, device="CPU") for array in arrays)
        output = query.scaled_dot_product_attention(key, value, attn_mask=mask).numpy()
        print(f"{poison} in the hidden {('key', 'value')[place - 1]}: the output is {output[0, 0, 0]}; without it, ones")
        reached.append(bool(np.isnan(output).any()))
sys.exit(int(all(reached)))
