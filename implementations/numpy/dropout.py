"""Attention with dropout and its backward pass, both as the definition reads.

A generator draws a number for each weight; those below the rate are dropped. The backward pass draws the same again.
"""

from __future__ import annotations

import math

import numpy as np

from .attention import Array, repeated, softmax, wide_of
from .training import logits_of, seen, shared, summed


def attend(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
           causal: bool = False, scale: float | None = None, window: tuple[int | None, int | None] | None = None,
           dropout_rate: float = 0.0, seed: int | None = None) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv)."""
    wide = wide_of(query)
    logits, _ = logits_of(query, key, bias, scale, None)
    weights = softmax(np.where(seen(query, key, mask, causal, window), logits, wide.type(-np.inf)))
    factors = factors_of(weights, dropout_rate, seed)
    output: Array = ((weights * factors) @ repeated(value, query)).astype(query.dtype)
    return output


def attend_backward(query: Array, key: Array, value: Array, grad_output: Array, *, mask: Array | None = None,
                    bias: Array | None = None, causal: bool = False, scale: float | None = None,
                    window: tuple[int | None, int | None] | None = None, dropout_rate: float = 0.0,
                    seed: int | None = None) -> dict[str, Array]:
    """The gradients of query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), and of a bias, where that of the output
    is grad_output (B,H,T,Dv).
    """
    wide = wide_of(query)
    logits, _ = logits_of(query, key, bias, scale, None)
    weights = softmax(np.where(seen(query, key, mask, causal, window), logits, wide.type(-np.inf)))
    factors = factors_of(weights, dropout_rate, seed)
    values, grad, kept = repeated(value, query), grad_output.astype(wide), weights * factors
    products = grad @ values.swapaxes(-1, -2) * factors
    delta = (grad * (kept @ values)).sum(axis=-1, keepdims=True)
    scores = weights * (products - delta)  # of the logits
    factor = wide.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    results = {"query": scores @ repeated(key, query) * factor,
               "key": shared(scores.swapaxes(-1, -2) @ query.astype(wide) * factor, key),
               "value": shared(kept.swapaxes(-1, -2) @ grad, value)}
    if bias is not None:
        results["bias"] = summed(scores, bias.shape)
    return {name: array.astype(query.dtype) for name, array in results.items()}


def factors_of(weights: Array, rate: float, seed: int | None) -> Array:
    """What the weights (B,H,T,S) are multiplied by: 0, or one over what is left of one without the rate."""
    if rate == 0:
        return np.ones((), weights.dtype)
    kept = np.random.default_rng(seed).random(weights.shape) >= rate
    return np.where(kept, 1 / (1 - rate) if rate < 1 else 0.0, 0.0).astype(weights.dtype)
