"""Attention with its backward pass, both as the definition reads: what a training step needs.

The backward pass keeps nothing: it forms weights and output anew.
"""

from __future__ import annotations

import math

import numpy as np

from .attention import Array, near, repeated, scaled, softmax, wide_of


def attend(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
           causal: bool = False, scale: float | None = None, window: tuple[int | None, int | None] | None = None,
           softcap: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv)."""
    wide = wide_of(query)
    logits, _ = logits_of(query, key, bias, scale, softcap)
    weights = softmax(np.where(seen(query, key, mask, causal, window), logits, wide.type(-np.inf)))
    output: Array = (weights @ repeated(value, query)).astype(query.dtype)
    return output


def attend_backward(query: Array, key: Array, value: Array, grad_output: Array, *, mask: Array | None = None,
                    bias: Array | None = None, causal: bool = False, scale: float | None = None,
                    window: tuple[int | None, int | None] | None = None,
                    softcap: float | None = None) -> dict[str, Array]:
    """The gradients of query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), and of a bias, where that of the output
    is grad_output (B,H,T,Dv).
    """
    wide = wide_of(query)
    logits, capped = logits_of(query, key, bias, scale, softcap)
    weights = softmax(np.where(seen(query, key, mask, causal, window), logits, wide.type(-np.inf)))
    values, grad = repeated(value, query), grad_output.astype(wide)
    products = grad @ values.swapaxes(-1, -2)
    delta = (grad * (weights @ values)).sum(axis=-1, keepdims=True)
    scores = weights * (products - delta)  # of the logits
    dots = scores if softcap is None else scores * (1 - (capped / wide.type(softcap)) ** 2)
    factor = wide.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    results = {"query": dots @ repeated(key, query) * factor,
               "key": shared(dots.swapaxes(-1, -2) @ query.astype(wide) * factor, key),
               "value": shared(weights.swapaxes(-1, -2) @ grad, value)}
    if bias is not None:
        results["bias"] = summed(scores, bias.shape)
    return {name: array.astype(query.dtype) for name, array in results.items()}


def logits_of(query: Array, key: Array, bias: Array | None, scale: float | None,
              softcap: float | None) -> tuple[Array, Array]:
    """(B,H,T,S) of query (B,H,T,D) and key (B,Hkv,S,D): with the bias, and as they were without."""
    wide = wide_of(query)
    capped = scaled(query.astype(wide), repeated(key, query), scale, softcap)
    return (capped if bias is None else capped + bias.astype(wide)), capped


def seen(query: Array, key: Array, mask: Array | None, causal: bool,
         window: tuple[int | None, int | None] | None) -> Array:
    """(T,S), or (B,H,T,S): which keys (B,Hkv,S,D) each query (B,H,T,D) sees."""
    T, S = query.shape[2], key.shape[2]
    visible: Array = near(T, S, window or (None, None)) & near(T, S, (None, 0) if causal else (None, None))
    return visible if mask is None else visible & mask


def shared(array: Array, like: Array) -> Array:
    """(B,H,S,·) to (B,Hkv,S,·): the sum over the query heads that share a head of keys or values (B,Hkv,S,·)."""
    B, heads, S, width = like.shape
    total: Array = array.reshape(B, heads, -1, S, width).sum(axis=2)
    return total


def summed(array: Array, shape: tuple[int, ...]) -> Array:
    """(B,H,T,S), summed to a shape that was broadcast to it; any shape."""
    full = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis in range(array.ndim) if full[axis] == 1 < array.shape[axis])
    total: Array = array.sum(axis=axes, keepdims=True).reshape(shape)
    return total
