"""KerasHub on PyTorch: NaN or infinity in a value that is masked for every query makes the output NaN."""

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

mask = np.array([[[True, False], [True, False]]])
seen = {}
for poison in (np.nan, np.inf):
    value = np.array([[[1.0] * 4, [poison] * 4]], np.float32)
    seen[poison] = keras.ops.convert_to_numpy(layer(tokens, value, tokens, attention_mask=mask))
    print(f"a masked value of {poison}: the output is {seen[poison][0, 0, 0]}; without it, 1")
sys.exit(int(all(np.isnan(output).all() for output in seen.values())))
