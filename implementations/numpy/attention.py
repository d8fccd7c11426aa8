"""Scaled dot-product attention as its definition reads: softmax(q k^T · scale + bias) v.

A softcap c makes the scaled logits x into c·tanh(x / c) before bias and mask; a window (left, right) hides all keys but
i - left … i + right from query i.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray  # numpy.typing has no NDArray before NumPy 1.21


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
              causal: bool = False, scale: float | None = None, window: tuple[int | None, int | None] | None = None,
              softcap: float | None = None, return_weights: bool = False) -> Array | tuple[Array, Array]:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for."""
    dtype, wide = query.dtype, wide_of(query)
    query, key, value = query.astype(wide), repeated(key, query), repeated(value, query)

    logits = scaled(query, key, scale, softcap)
    if bias is not None:
        logits = logits + bias.astype(wide)
    visible = near(query.shape[2], key.shape[2], window or (None, None))
    if causal:
        visible = visible & near(query.shape[2], key.shape[2], (None, 0))
    if mask is not None:
        visible = visible & mask
    weights = softmax(np.where(visible, logits, wide.type(-np.inf)))

    output = (weights @ value).astype(dtype)
    return (output, weights.astype(dtype)) if return_weights else output


def wide_of(array: Array) -> np.dtype:
    """What is computed in for inputs, (B,H,T,D) or any other shape, of this dtype; bfloat16 is of kind V."""
    return np.promote_types(np.float32, array.dtype) if array.dtype.kind == "f" else np.dtype(np.float32)


def repeated(array: Array, query: Array) -> Array:
    """(B,Hkv,S,·) to (B,H,S,·), wide: a head for each of the query (B,H,T,D)."""
    return np.repeat(array.astype(wide_of(query)), query.shape[1] // array.shape[1], axis=1)


def scaled(query: Array, key: Array, scale: float | None, softcap: float | None) -> Array:
    """(B,H,T,D) and (B,H,S,D) to the dot products (B,H,T,S), scaled and capped."""
    wide = query.dtype
    logits: Array = query @ key.swapaxes(-1, -2)
    logits = logits * wide.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    return logits if softcap is None else np.tanh(logits / wide.type(softcap)) * wide.type(softcap)


def near(T: int, S: int, window: tuple[int | None, int | None]) -> Array:
    """(T,S): query i sees the keys i - left … i + right; None is no bound."""
    left, right = window
    ahead = np.arange(S) - np.arange(T)[:, None]
    return (ahead >= (-T if left is None else -left)) & (ahead <= (S if right is None else right))


def softmax(logits: Array) -> Array:
    """Along the last axis; a row that is -inf throughout becomes zeros."""
    largest = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(logits - np.where(np.isfinite(largest), largest, 0).astype(logits.dtype))
    total = exponentials.sum(axis=-1, keepdims=True)
    result: Array = exponentials / np.where(total == 0, 1, total).astype(logits.dtype)
    return result
