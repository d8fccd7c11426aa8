"""Keras on PyTorch in float16: the layer Attention gives NaN to a query that may attend to no value.

It asks `scores.dtype == "float16"`, which on PyTorch is never so, and subtracts 1e9, which makes -inf of a score.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

answers = []
for dtype in ("float32", "float16"):
    layer = keras.layers.Attention(dtype=dtype)
    value = torch.tensor([[[3.0]]]).to(getattr(torch, dtype))
    nothing = torch.zeros(1, 1, dtype=torch.bool)
    answers.append(layer([value, value], mask=[None, nothing]).item())
    print(f"{dtype}: the query of one masked value, 3, gets {answers[-1]}")
sys.exit(int(answers[0] == 3 and answers[1] != answers[1]))
