"""Scaled dot-product attention as its definition reads: softmax(q k^T · scale + bias) v."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
              causal: bool = False, scale: float | None = None,
              return_weights: bool = False) -> Array | tuple[Array, Array]:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for."""
    dtype = query.dtype
    wide = np.promote_types(np.float32, dtype) if dtype.kind == "f" else np.dtype(np.float32)  # bfloat16 is of kind V
    query, key, value = (array.astype(wide) for array in (query, key, value))
    key, value = (np.repeat(array, query.shape[1] // array.shape[1], axis=1) for array in (key, value))

    logits = query @ key.swapaxes(-1, -2)  # (B,H,T,D) x (B,H,D,S) -> (B,H,T,S)
    logits = logits * wide.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        logits = logits + bias.astype(wide)
    visible = np.tri(query.shape[2], key.shape[2], dtype=bool) if causal else np.ones((), bool)
    if mask is not None:
        visible = visible & mask
    weights = softmax(np.where(visible, logits, wide.type(-np.inf)))

    output = (weights @ value).astype(dtype)
    return (output, weights.astype(dtype)) if return_weights else output


def softmax(logits: Array) -> Array:
    """Along the last axis; a row that is -inf throughout becomes zeros."""
    largest = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(logits - np.where(np.isfinite(largest), largest, 0).astype(logits.dtype))
    total = exponentials.sum(axis=-1, keepdims=True)
    result: Array = exponentials / np.where(total == 0, 1, total).astype(logits.dtype)
    return result
