"""Scaled dot-product attention in JAX, written out: softmax(q k^T · scale + bias) v."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax.lax import stop_gradient

from .compiled import hurried_jit

Array = Any


def _attention(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False, scale: float | None = None, return_weights: bool = False) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for."""
    dtype, wide = query.dtype, jnp.promote_types(query.dtype, jnp.float32)
    group = query.shape[1] // key.shape[1]
    query, key, value = (array.astype(wide) for array in (query, key, value))
    key, value = (jnp.repeat(array, group, axis=1) for array in (key, value))
    logits = jnp.einsum("bhtd,bhsd->bhts", query, key) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        logits = logits + bias.astype(wide)
    visible = jnp.tri(query.shape[2], key.shape[2], dtype=bool) if causal else jnp.array(True)
    if mask is not None:
        visible = visible & mask
    weights = _softmax(jnp.where(visible, logits, -jnp.inf))
    output = jnp.einsum("bhts,bhsd->bhtd", weights, value).astype(dtype)
    return (output, weights.astype(dtype)) if return_weights else output


def _softmax(logits: Array) -> Array:
    """Along the last axis; a row that is -inf throughout becomes zeros."""
    largest = stop_gradient(logits.max(axis=-1, keepdims=True))  # it cancels; recomputed, its gradient may be infinite
    exponentials = jnp.exp(logits - jnp.where(jnp.isfinite(largest), largest, 0))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / jnp.where(total == 0, 1, total)


attention = hurried_jit(_attention, "causal", "return_weights")
attention_eager = _attention
