"""Keras: asked for scores, MultiHeadAttention adds -1e9 to hidden logits, or its kin: visible ones below it are lost."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

logits = np.array([[-4e9, 0.0]], "float32")  # only the first may be attended to
mask = np.array([[True, False]])
weights = keras.ops.convert_to_numpy(keras.layers.Softmax()(logits, mask=mask))
print("logits", logits, "visible", mask, "weights", weights, "should be [[1. 0.]]")
sys.exit(int(weights[0, 0] != 1))
