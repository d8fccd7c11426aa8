"""tinygrad: a query that may attend to no key gets NaN."""

import sys

import numpy as np
from tinygrad import Tensor

ones = Tensor(np.ones((1, 1, 2, 4), np.float32), device="CPU")
mask = Tensor(np.array([[[[True, True], [False, False]]]]), device="CPU")  # the second query may attend to nothing
output = ones.scaled_dot_product_attention(ones, ones, attn_mask=mask).numpy()
print(f"the query that may attend to nothing gets {output[0, 0, 1]}")
sys.exit(int(np.isnan(output[0, 0, 1]).all()))
