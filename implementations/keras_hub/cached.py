"""`keras_hub.layers.CachedMultiHeadAttention`, whose projections do nothing, on whatever backend KERAS_BACKEND names.

A past is a cache with room for new keys; the layer splices those in behind it. Key and value are stacked in the cache.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import keras
import numpy as np
from keras_hub.layers import CachedMultiHeadAttention

Array = Any
Layer = Any


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, past_key: Array = None,
           past_value: Array = None) -> Array:
    """Query (B,H,T,D), key and value (B,H,S,D), past keys and values (B,H,P,D), mask (B,H,T,P+S) to (B,H,T,D)."""
    return _called(query, key, value, mask, _cached(past_key, past_value, key))[0]


def scores(query: Array, key: Array, value: Array, *, mask: Array = None, past_key: Array = None,
           past_value: Array = None, return_weights: bool = False) -> Array:
    """The same, asked for scores: written out in einsums."""
    cached = _cached(past_key, past_value, key)
    output, weights, *_ = _called(query, key, value, mask, {**cached, "return_attention_scores": True})
    return (output, weights) if return_weights else output


def _called(query: Array, key: Array, value: Array, mask: Array, more: dict[str, Any]) -> tuple[Array, ...]:
    H, D = query.shape[1], query.shape[3]
    layer = _layer(H, D, keras.backend.standardize_dtype(query.dtype))
    flat = (_side_by_side(array) for array in (query, value, key))
    answer = layer(*flat, attention_mask=mask, **more)
    output, *others = answer if isinstance(answer, tuple) else (answer,)
    return (keras.ops.reshape(output, (*output.shape[:2], H, D)).swapaxes(1, 2), *others)


def _cached(past_key: Array, past_value: Array, key: Array) -> dict[str, Any]:
    """The cache (B,2,P+S,H,D), zeros where new keys and values come, and the place where they begin."""
    if past_key is None:
        return {}
    room = [(0, 0), (0, 0), (0, 0), (0, key.shape[2]), (0, 0)]
    stored = keras.ops.pad(keras.ops.stack([past_key, past_value], axis=1), room)
    return {"cache": keras.ops.transpose(stored, (0, 1, 3, 2, 4)), "cache_update_index": past_key.shape[2]}


def _side_by_side(array: Array) -> Array:
    """(B,H,L,D) to (B,L,H·D)."""
    B, H, L, D = array.shape
    return keras.ops.reshape(array.swapaxes(1, 2), (B, L, H * D))


@lru_cache(maxsize=64)
def _layer(H: int, D: int, dtype: str) -> Layer:
    """A layer in evaluation whose projections are identities."""
    layer = CachedMultiHeadAttention(num_heads=H, key_dim=D, use_bias=False, output_shape=H * D, dtype=dtype)
    shape = (None, None, H * D)
    layer.build(query_shape=shape, value_shape=shape, key_shape=shape)
    same = np.eye(H * D, dtype=np.float32)
    for variable in layer.weights:
        variable.assign(same.reshape(variable.shape))
    return layer
