"""paddle: NaN or infinity in a key or value that no query may see reaches the output.

Infinity in a value does so as infinity: on CPU its weight is not 0.
"""

import sys

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

mask = paddle.to_tensor(np.array([[[[True, False], [True, False]]]]))  # the second key is hidden
reached = []
for place in (1, 2):
    for poison in (float("nan"), float("inf")):
        arrays = [np.ones((1, 2, 1, 4), np.float32) for _ in range(3)]  # (B,T,H,D)
        arrays[place][0, 1] = poison
        output = scaled_dot_product_attention(*map(paddle.to_tensor, arrays), attn_mask=mask).numpy()
        print(f"{poison} in the hidden {('key', 'value')[place - 1]}: the output is {output[0, 0, 0]}; without it, ones")
        reached.append(float(output[0, 0, 0, 0]))
sys.exit(int(np.isnan(reached[:3]).all() and reached[3] == np.inf))
