"""Keras on NumPy: softmax keeps its denominator in bfloat16, where 256 + 1 is 256, so that weights sum to more than 1."""

import os
import sys

os.environ["KERAS_BACKEND"] = "numpy"
import keras
import ml_dtypes
import numpy as np

weights = np.asarray(keras.ops.softmax(np.zeros((1, 1024), ml_dtypes.bfloat16)), np.float32)
print("1024 equal weights in bfloat16 sum to", weights.sum())
zeros = [np.zeros((1, length, 1), ml_dtypes.bfloat16) for length in (1, 1024)]
scores = keras.layers.Attention(dtype="bfloat16")([zeros[0], zeros[1]], return_attention_scores=True)[1]
total = np.asarray(scores, np.float32).sum()
print("and those of the layer Attention to", total)
sys.exit(int(weights.sum() > 2 and total > 2))
