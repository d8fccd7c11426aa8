"""Keras on PyTorch in float16: a query that may attend to no key attends to all, as if there were no mask."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

seen = {}
for dtype in (torch.float32, torch.float16):
    query, key, value = (torch.tensor(entries, dtype=dtype).view(1, -1, 1, 1) for entries in ([1], [0, 3], [1, 5]))
    nothing = torch.zeros(1, 1, 1, 2, dtype=torch.bool)
    seen[dtype] = [float(keras.ops.dot_product_attention(query, key, value, mask=mask).item())
                   for mask in (nothing, None)]
    print(f"{dtype}, values 1 and 5: {seen[dtype][0]:.4g} if both are masked; {seen[dtype][1]:.4g} if none is")
sys.exit(int(seen[torch.float32][0] == 3 and seen[torch.float16][0] == seen[torch.float16][1]))
