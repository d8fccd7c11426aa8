"""Keras on PyTorch: ops.dot_product_attention refuses a bias beside is_causal where values are wider than keys."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

random = np.random.default_rng(0)
query, key = random.standard_normal((2, 1, 3, 1, 4)).astype("float32")
bias = np.zeros((1, 1, 3, 3), "float32")
refused = []
for width in (4, 6):
    value = random.standard_normal((1, 3, 1, width)).astype("float32")
    try:
        keras.ops.dot_product_attention(query, key, value, bias=bias, is_causal=True)
        print(f"values of width {width}: an answer")
    except RuntimeError as error:
        refused.append(width)
        print(f"values of width {width}: {error}")
sys.exit(int(refused == [6]))
