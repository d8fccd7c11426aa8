"""Keras on NumPy: the layer Attention with a causal mask returns float32 for bfloat16 inputs; without it, bfloat16."""

import os
import sys

os.environ["KERAS_BACKEND"] = "numpy"
import keras
import ml_dtypes
import numpy as np

inputs = [np.ones((1, 2, 1), ml_dtypes.bfloat16)] * 2
layer = keras.layers.Attention(dtype="bfloat16")
dtypes = [str(layer(inputs, use_causal_mask=causal).dtype) for causal in (False, True)]
print("bfloat16 inputs: the output is {}; with use_causal_mask it is {}".format(*dtypes))
sys.exit(int(dtypes == ["bfloat16", "float32"]))
