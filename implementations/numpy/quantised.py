"""Attention over stored codes, as kernels of servers compute it: each code less a zero point stands for itself times a
scale.

Scales and zero points broadcast to the codes; where a manifest declares their granularity, they have its shape.
"""

from __future__ import annotations

import numpy as np

from .attention import near, softmax, wide_of

Array = np.ndarray  # numpy.typing has no NDArray before NumPy 1.21

FEATURES, TOKENS = 32, 32
"""How many neighbours share a scale, where they lie in blocks."""


def dequantising(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
                 causal: bool = False, scale: float | None = None, query_scale: Array | None = None,
                 key_scale: Array | None = None, value_scale: Array | None = None, query_zero: Array | None = None,
                 key_zero: Array | None = None, value_zero: Array | None = None) -> Array:
    """Zero points are taken off codes, and scales multiplied in, first. Query (B,H,T,D), key (B,Hkv,S,D), value
    (B,Hkv,S,Dv), each beside scales and zero points that broadcast to it, to (B,H,T,Dv).
    """
    wide = wide_of(query)
    query_, key, value = (times(less(array, zero, wide), of_array, wide) for array, of_array, zero in (
        (query, query_scale, query_zero), (key, key_scale, key_zero), (value, value_scale, value_zero)))
    logits = query_ @ heads(key, query).swapaxes(-1, -2) * factor(query, scale)
    weights = softmax(hidden(logits if bias is None else logits + bias.astype(wide), mask, causal))
    return np.asarray((weights @ heads(value, query)).astype(query.dtype))


def by_head(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
            scale: float | None = None, key_scale: Array | None = None, value_scale: Array | None = None) -> Array:
    """Codes attend, and the scales (Hkv,) are multiplied into logits and output: one multiplication a logit, as a
    kernel does that keeps an FP8 cache. Shapes as of `dequantising`.
    """
    wide, group = wide_of(query), query.shape[1] // key.shape[1]
    logits = query.astype(wide) @ heads(key.astype(wide), query).swapaxes(-1, -2) * factor(query, scale)
    if key_scale is not None:
        logits = logits * np.repeat(key_scale, group)[:, None, None].astype(wide)
    output = softmax(hidden(logits, mask, causal)) @ heads(value.astype(wide), query)
    if value_scale is not None:
        output = output * np.repeat(value_scale, group)[:, None, None].astype(wide)
    return np.asarray(output.astype(query.dtype))


def by_token(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
             scale: float | None = None, key_scale: Array | None = None, value_scale: Array | None = None) -> Array:
    """The same with scales (B,Hkv,S), one for each token of the cache; those of the values meet the weights."""
    wide, group = wide_of(query), query.shape[1] // key.shape[1]
    logits = query.astype(wide) @ heads(key.astype(wide), query).swapaxes(-1, -2) * factor(query, scale)
    if key_scale is not None:
        logits = logits * np.repeat(key_scale, group, axis=1)[:, :, None].astype(wide)
    weights = softmax(hidden(logits, mask, causal))
    if value_scale is not None:
        weights = weights * np.repeat(value_scale, group, axis=1)[:, :, None].astype(wide)
    return np.asarray((weights @ heads(value.astype(wide), query)).astype(query.dtype))


def by_token_with_zeros(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                        key_scale: Array | None = None, value_scale: Array | None = None,
                        key_zero: Array | None = None, value_zero: Array | None = None) -> Array:
    """Unsigned codes with a scale and a zero point (B,Hkv,S) for each token, as caches of 8 bits have them: products of
    codes come first, and the zero points are taken off of their sums. Shapes as of `dequantising`.
    """
    wide, group = wide_of(query), query.shape[1] // key.shape[1]
    wide_query = query.astype(wide)
    logits = wide_query @ heads(key.astype(wide), query).swapaxes(-1, -2)
    if key_zero is not None:
        zeros = np.repeat(key_zero, group, axis=1)[:, :, None].astype(wide)
        logits = logits - zeros * wide_query.sum(axis=-1, keepdims=True)
    if key_scale is not None:
        logits = logits * np.repeat(key_scale, group, axis=1)[:, :, None].astype(wide)
    weights = softmax(hidden(logits * factor(query, None), mask, causal))
    if value_scale is not None:
        weights = weights * np.repeat(value_scale, group, axis=1)[:, :, None].astype(wide)
    output = weights @ heads(value.astype(wide), query)
    if value_zero is not None:
        output = output - weights @ np.repeat(value_zero, group, axis=1)[..., None].astype(wide)
    return np.asarray(output.astype(query.dtype))


def by_feature_block(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                     key_scale: Array | None = None, value_scale: Array | None = None) -> Array:
    """A scale for each block of 32 neighbouring features of a token, (B,Hkv,S,D/32) of keys and (B,Hkv,S,Dv/32) of
    values: the products of each block of keys are scaled and added up. Shapes as of `dequantising`.
    """
    wide = wide_of(query)
    wide_query, wide_key = query.astype(wide), heads(key.astype(wide), query)
    logits = np.zeros((*query.shape[:3], key.shape[2]), wide)
    for at in range(-(-query.shape[-1] // FEATURES)):
        block = slice(at * FEATURES, (at + 1) * FEATURES)
        products = wide_query[..., block] @ wide_key[..., block].swapaxes(-1, -2)
        logits += products if key_scale is None else products * heads(key_scale, query)[:, :, None, :, at].astype(wide)
    weights = softmax(hidden(logits * factor(query, None), mask, causal))
    scales = None if value_scale is None else np.repeat(value_scale, FEATURES, axis=-1)[..., :value.shape[-1]]
    return np.asarray((weights @ heads(times(value, scales, wide), query)).astype(query.dtype))


def by_groups(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
              key_scale: Array | None = None, value_scale: Array | None = None, key_zero: Array | None = None,
              value_zero: Array | None = None) -> Array:
    """Unsigned codes in groups, as KIVI has them: of keys, 32 tokens of a feature have a scale and a zero point,
    (B,Hkv,S/32,D); of values, 32 features of a token, (B,Hkv,S,Dv/32). Shapes as of `dequantising`.
    """
    wide = wide_of(query)
    of_keys = (spread_groups(array, TOKENS, 2, key.shape[2]) for array in (key_zero, key_scale))
    of_values = (spread_groups(array, FEATURES, 3, value.shape[3]) for array in (value_zero, value_scale))
    key = times(less(key, next(of_keys), wide), next(of_keys), wide)
    value = times(less(value, next(of_values), wide), next(of_values), wide)
    logits = query.astype(wide) @ heads(key, query).swapaxes(-1, -2) * factor(query, None)
    return np.asarray((softmax(hidden(logits, mask, causal)) @ heads(value, query)).astype(query.dtype))


def spread_groups(array: Array | None, length: int, axis: int, size: int) -> Array | None:
    """Scales or zero points (B,Hkv,S,D) of groups along an axis, one for each of the `size` entries there."""
    return None if array is None else np.repeat(array, length, axis=axis).take(np.arange(size), axis)


def less(codes: Array, zero: Array | None, wide: np.dtype) -> Array:
    """Codes, of any shape, in the dtype of the computation, less zero points that broadcast to them."""
    return codes.astype(wide) if zero is None else codes.astype(wide) - zero.astype(wide)


def times(codes: Array, scale: Array | None, wide: np.dtype) -> Array:
    """Codes, of any shape, in the dtype of the computation, times scales that broadcast to them."""
    return codes.astype(wide) if scale is None else codes.astype(wide) * scale.astype(wide)


def heads(array: Array, query: Array) -> Array:
    """(B,Hkv,S,D) -> (B,H,S,D): each head of keys and values serves H / Hkv neighbouring queries."""
    return np.repeat(array, query.shape[1] // array.shape[1], axis=1)


def factor(query: Array, scale: float | None) -> float:
    """1/sqrt(D) of a query (B,H,T,D), unless the caller says otherwise."""
    return query.shape[-1] ** -0.5 if scale is None else scale


def hidden(logits: Array, mask: Array | None, causal: bool) -> Array:
    """Logits (B,H,T,S), -inf where a key is hidden."""
    T, S = logits.shape[-2:]
    visible = near(T, S, (None, 0)) if causal else np.ones((T, S), bool)
    return np.where(visible if mask is None else visible & mask, logits, logits.dtype.type(-np.inf))
