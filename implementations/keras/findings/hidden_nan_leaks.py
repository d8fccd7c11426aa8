"""keras.ops.dot_product_attention: NaN or infinity in a value that no query may see reaches the output.

On PyTorch, where the kernel adds the mask to the logits, in a key, too.
"""

import sys

import keras
import numpy as np
from keras import ops

mask = np.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for place in (1, 2):
    for poison in (np.nan, np.inf):
        arrays = [np.ones((1, 2, 1, 4), np.float32) for _ in range(3)]  # (B,T,H,D)
        arrays[place][0, 1] = poison
        output = ops.convert_to_numpy(ops.dot_product_attention(*arrays, mask=mask))
        where = f"{poison} in the hidden {('key', 'value')[place - 1]}"
        print(f"{keras.backend.backend()}: with {where} the output is {output[0, 0, 0]}; else ones")
        reached.append(bool(np.isnan(output).any()))
sys.exit(int(reached == [keras.backend.backend() == "torch"] * 2 + [True] * 2))
