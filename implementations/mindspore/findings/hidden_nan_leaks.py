"""mindspore.nn.MultiheadAttention on CPU: NaN or infinity in an input that no query may see reaches the output."""

import sys

import numpy as np
from mindspore import Tensor, nn

layer = nn.MultiheadAttention(4, 1, batch_first=True)
rng = np.random.default_rng(0)
inputs = [rng.standard_normal((1, 2, 4)).astype(np.float32) for _ in range(3)]
hidden = Tensor(np.array([[False, True], [False, True]]))  # True hides: nobody sees the second key
reached = []
for place in (1, 2):
    for poison in (np.nan, np.inf):
        arrays = [array.copy() for array in inputs]
        arrays[place][0, 1] = poison
        output = layer(*map(Tensor, arrays), attn_mask=hidden)[0].asnumpy()
        print(f"with {poison} in the hidden {('key', 'value')[place - 1]} the output is {output[0, 0]}")
        reached.append(not np.isfinite(output).all())
sys.exit(int(all(reached)))
