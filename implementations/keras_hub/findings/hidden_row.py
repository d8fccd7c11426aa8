"""KerasHub on PyTorch: a query of CachedMultiHeadAttention that may attend to no key gets the mean of all values."""

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

value = np.array([[[1.0] * 4, [2.0] * 4]], np.float32)
mask = np.array([[[True, False], [False, False]]])
output = keras.ops.convert_to_numpy(layer(tokens, value, tokens, attention_mask=mask))[0, :, 0]
print(f"values 1 and 2: the query that sees the first gets {output[0]}, the one that sees none {output[1]}")
sys.exit(int(output[0] == 1 and output[1] == 1.5))
