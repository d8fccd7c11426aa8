"""KerasHub on PyTorch: with fewer values than keys, CachedMultiHeadAttention answers on CPU, as if they were not there."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras_hub.layers import CachedMultiHeadAttention

layer = CachedMultiHeadAttention(num_heads=1, key_dim=4, use_bias=False, output_shape=4)
tokens = np.ones((1, 2, 4), np.float32)
layer.build(tokens.shape, tokens.shape)
layer.set_weights([np.eye(4, dtype="float32").reshape(weight.shape) for weight in layer.weights])

keys = np.ones((1, 3, 4), np.float32)
value = np.array([[[1.0] * 4, [2.0] * 4]], np.float32)
layer(tokens, keys, keys)  # only its first call compares the shapes
output = keras.ops.convert_to_numpy(layer(tokens, value, keys))[0, 0, 0]
print(f"three equal keys, the values 1 and 2: the output is {output}, the mean of two")
sys.exit(int(output == 1.5))
