"""tinygrad: if there is one key, a query that may not attend to it gets its value; if there are two, NaN."""

import sys

import numpy as np
from tinygrad import Tensor

answers = []
for S in (1, 2):
    query, key, value = (Tensor(np.full((1, 1, length, 1), entry, np.float32), device="CPU")
                         for length, entry in ((1, 1), (S, 1), (S, 3)))
    mask = Tensor(np.zeros((1, 1, 1, S), bool), device="CPU")
    answers.append(query.scaled_dot_product_attention(key, value, attn_mask=mask).numpy().item())
    print(f"number of keys, all hidden and of value 3: {S}; the output: {answers[-1]}")
sys.exit(int(answers[0] == 3 and np.isnan(answers[1])))
