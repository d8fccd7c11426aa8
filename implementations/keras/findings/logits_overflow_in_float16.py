"""Keras: a logit beyond 65504 makes the output NaN in float16, everywhere on NumPy and TensorFlow.

On PyTorch and JAX, the layer Attention does so, and MultiHeadAttention asked for scores; dot_product_attention does not.
"""

import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", next(filter(importlib.util.find_spec, ("tensorflow", "torch", "jax", "numpy"))))

import keras
import numpy as np
from keras import layers, ops

warnings.simplefilter("ignore")  # of a softmax over one key, and of the overflow


def multi_head(kind: type, *shape: int) -> Callable[..., Any]:
    """A layer of one head, whose projections change nothing."""

    def attend(query: np.ndarray, value: np.ndarray, key: np.ndarray, **more: bool) -> Any:
        layer = kind(*shape, use_bias=False, dtype=str(query.dtype))
        layer(query, value, key)
        layer.set_weights([np.eye(4).reshape(weight.shape) for weight in layer.get_weights()])
        return layer(query, value, key, **more)

    return attend


layer, grouped = multi_head(layers.MultiHeadAttention, 1, 4), multi_head(layers.GroupQueryAttention, 4, 1, 1)
ways: dict[str, Callable[..., Any]] = {
    "MultiHeadAttention, asked for scores": lambda q, v, k: layer(q, v, k, return_attention_scores=True)[0],
    "Attention": lambda q, v, k: layers.Attention(dtype=str(q.dtype))([q, v, k]),
    "dot_product_attention": lambda q, v, k: ops.dot_product_attention(q[None], k[None], v[None]),
    "MultiHeadAttention": layer,
    "GroupQueryAttention": grouped,
}
backend = keras.backend.backend()
holds = []
for name, attend in ways.items():
    answers = []
    for dtype in ("float32", "float16"):
        query, value = np.full((1, 1, 4), 240, dtype), np.full((1, 1, 4), 3, dtype)  # q · k is 230,400, half of it scaled
        answers.append(float(np.max(ops.convert_to_numpy(attend(query, value, query)))))
    print(f"{name} on {backend}: one key, value 3, logit 115,200 or more: float32 {answers[0]}, float16 {answers[1]}")
    fused = backend in {"torch", "jax"} and name not in {"MultiHeadAttention, asked for scores", "Attention"}
    holds.append(answers[0] == 3 and (answers[1] == 3 if fused else math.isnan(answers[1])))
sys.exit(int(all(holds)))
