"""tinygrad: a logit beyond 65504 makes the output NaN in float16, if there are two or more keys."""

import math
import sys

import numpy as np
from tinygrad import Tensor

seen = {}
for dtype in (np.float32, np.float16):
    arrays = [np.full((1, 1, S, 4), entry, dtype) for S, entry in ((1, 240), (2, 240), (2, 3))]
    arrays[1][0, 0, 1] = 0  # the logits are 240 · 240 · 4 / sqrt(4) = 115,200 and 0, so the weights are 1 and 0
    query, key, value = (Tensor(array, device="CPU") for array in arrays)
    seen[dtype] = float(query.scaled_dot_product_attention(key, value).numpy().max())
    print(f"{dtype.__name__}: with logits of 115,200 and 0 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen[np.float32] == 3 and math.isnan(seen[np.float16])))
