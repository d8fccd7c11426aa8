"""Keras on PyTorch: ops.dot_product_attention with is_causal is NaN on CPU where the scale is not positive."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

query, key, value = np.random.default_rng(0).standard_normal((3, 1, 33, 1, 8)).astype("float32")
bad = []
for scale in (0.5, 0.0, -0.5):
    output = keras.ops.convert_to_numpy(keras.ops.dot_product_attention(query, key, value, is_causal=True, scale=scale))
    logits = scale * np.einsum("bthd,bshd->bhts", query, key).astype("float64")
    weights = np.exp(logits) * np.tri(33)
    right = np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), value)
    wrong = ~np.isclose(output, right, atol=1e-4)
    print(f"scale {scale}: {wrong.sum()} of {wrong.size} entries are wrong, {np.isnan(output).sum()} are NaN")
    bad += [scale] if wrong.any() else []
sys.exit(int(bad == [0.0, -0.5]))
