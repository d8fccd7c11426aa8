"""Keras on NumPy: softmax keeps its denominator in bfloat16, where 256 + 1 is 256, so that weights sum to more than 1."""

import os
import sys

os.environ["KERAS_BACKEND"] = "numpy"
import keras
import ml_dtypes
import numpy as np

weights = np.asarray(keras.ops.softmax(np.zeros((1, 1024), ml_dtypes.bfloat16)), np.float32)
print("1024 equal weights in bfloat16 sum to", weights.sum())
sys.exit(int(weights.sum() > 2))
