"""mindspore.nn.MultiheadAttention on CPU: NaN or infinity in an input that no query may see reaches the output."""

import sys

import numpy as np
from mindspore import Tensor, nn

layer = nn.MultiheadAttention(4, 1, batch_first=True)
rng = np.random.default_rng(0)
query, keys = (rng.standard_normal((1, 2, 4)).astype(np.float32) for _ in range(2))
hidden = Tensor(np.array([[False, True], [False, True]]))  # True hides: nobody sees the second key
reached = []
for poison in (np.nan, np.inf):
    poisoned = keys.copy()
    poisoned[0, 1] = poison
    output = layer(Tensor(query), Tensor(keys), Tensor(poisoned), attn_mask=hidden)[0].asnumpy()
    print(f"with {poison} in the hidden value the output is {output[0, 0]}")
    reached.append(not np.isfinite(output).all())
sys.exit(int(all(reached)))
