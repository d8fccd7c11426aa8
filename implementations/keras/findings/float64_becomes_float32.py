"""Keras: float64 goes in and float32, or float64 with the error of float32, comes out."""

import sys

import keras
import numpy as np
from keras import ops

if keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
query, key, value = (ops.convert_to_tensor(rng.standard_normal((1, 5, 1, 4)), dtype="float64") for _ in range(3))
Q, K, V = (ops.convert_to_numpy(array)[0, :, 0].astype("float64") for array in (query, key, value))
weights = np.exp(Q @ K.T / 2)
right = weights / weights.sum(axis=-1, keepdims=True) @ V
output = ops.convert_to_numpy(ops.dot_product_attention(query, key, value))
error = np.abs(output[0, :, 0] - right).max()
print(f"{keras.backend.backend()}: {output.dtype} comes out, off by {error:.1e}")
sys.exit(int(error > 1e-12))
