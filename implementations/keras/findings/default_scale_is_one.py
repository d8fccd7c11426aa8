"""keras.layers.Attention: by default the dot products are not scaled."""

import sys

import numpy as np
from keras import layers, ops

X = np.random.default_rng(0).standard_normal((1, 3, 4)).astype("float32")
seen = ops.convert_to_numpy(layers.Attention()([X, X], return_attention_scores=True)[1])[0]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    exponentials = np.exp(logits)
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


unscaled, scaled = softmax(X[0] @ X[0].T), softmax(X[0] @ X[0].T / 2)
print(f"first row of the scores: {seen[0]}\nunscaled: {unscaled[0]}\nscaled by 1/sqrt(4): {scaled[0]}")
sys.exit(int(np.allclose(seen, unscaled, atol=1e-5) and not np.allclose(seen, scaled, atol=1e-2)))
