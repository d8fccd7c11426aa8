"""Keras on PyTorch: with fewer values than keys, attention answers on CPU as if the other keys were not there."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

query, key = np.zeros((1, 1, 1, 8), np.float32), np.zeros((1, 3, 1, 8), np.float32)  # (B,L,H,D)
value = np.repeat(np.array([1, 2], np.float32), 8).reshape(1, 2, 1, 8)
output = float(keras.ops.dot_product_attention(query, key, value).cpu().numpy().ravel()[0])
layer = keras.layers.MultiHeadAttention(1, 8, use_bias=False)
tokens = [np.ones((1, length, 8), np.float32) for length in (1, 2, 3)]
layer(tokens[0], tokens[2], tokens[2])  # only its first call compares the shapes
answered = tuple(layer(tokens[0], tokens[1], tokens[2]).shape)
print(f"three equal keys, the values 1 and 2: dot_product_attention gives {output}, the mean of two")
print(f"MultiHeadAttention with three keys and two values answers in the shape {answered}")
sys.exit(int(output == 1.5 and answered == (1, 1, 8)))
