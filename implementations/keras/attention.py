"""`keras.layers.Attention`, of one head: heads are handed over as further elements of the batch.

It is Luong's attention, which is not scaled unless it is told to: its one variable is set to 1/sqrt(D), or to the scale
that is asked for. Its boolean masks tell padding of queries and of values only: padding.py hands those over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import keras
from keras import layers

Array = Any
Layer = Any


def attend(query: Array, key: Array, value: Array, *, causal: bool = False, scale: float | None = None,
           return_weights: bool = False, padding: Array = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv); the scale goes into the layer's one variable.

    padding: (B,H,S), True where a value is a token.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    layer = _built(keras.backend.standardize_dtype(query.dtype), scale)
    flat = [array.reshape(-1, *array.shape[2:]) for array in (query, value, key)]
    masks = None if padding is None else [None, padding.reshape(-1, padding.shape[-1])]
    answer = layer(flat, mask=masks, use_causal_mask=causal, return_attention_scores=return_weights)
    leading = query.shape[:2]
    if return_weights:
        return tuple(_with_heads(result, leading) for result in answer)
    return _with_heads(answer, leading)


def _with_heads(result: Array, leading: tuple[int, int]) -> Array:
    return keras.ops.reshape(result, (*leading, *result.shape[1:]))


@lru_cache(maxsize=64)
def _built(dtype: str, scale: float) -> Layer:
    """A layer with the scale as its variable."""
    layer = layers.Attention(use_scale=True, dtype=dtype)
    layer.build([(None, None, None)] * 3)
    layer.scale.assign(scale)
    return layer
