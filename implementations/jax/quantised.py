"""Attention over a float8 or int4 cache in JAX, op by op: codes are converted and scaled inside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def over_cache(query: Array, key: Array, value: Array, *, causal: bool = False, key_scale: Array | None = None,
               value_scale: Array | None = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (B,Hkv) of each, to (B,H,T,Dv)."""
    wide = query.dtype if query.dtype == jnp.float64 else jnp.float32
    logits = jnp.einsum("bhtd,bhsd->bhts", query.astype(wide), _repeat_heads(key.astype(wide), query),
                        precision=jax.lax.Precision.HIGHEST) * query.shape[-1] ** -0.5
    if key_scale is not None:
        logits = logits * _repeat_heads(key_scale, query)[:, :, None, None].astype(wide)
    if causal:
        logits = jnp.where(jnp.tri(logits.shape[-2], logits.shape[-1], dtype=bool), logits, -jnp.inf)
    output = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(logits, -1), _repeat_heads(value.astype(wide), query),
                        precision=jax.lax.Precision.HIGHEST)
    if value_scale is not None:
        output = output * _repeat_heads(value_scale, query)[:, :, None, None].astype(wide)
    return output.astype(query.dtype)


def _repeat_heads(array: Array, query: Array) -> Array:
    """(B,Hkv,…) -> (B,H,…): each head of keys and values serves H / Hkv neighbouring queries."""
    return jnp.repeat(array, query.shape[1] // array.shape[1], axis=1)


def by_int8_products(query: Array, key: Array, value: Array, *, causal: bool = False, query_scale: Array | None = None,
                     key_scale: Array | None = None, value_scale: Array | None = None) -> Array:
    """All three are INT8 codes: `jax.lax.dot_general` of queries and keys in int32, scales (B,H,T), (B,Hkv,S) and
    (Hkv,Dv) behind it. Shapes as of `over_cache`.
    """
    dims = (((3,), (3,)), ((0, 1), (0, 1)))
    products = jax.lax.dot_general(query, _repeat_heads(key, query), dims, preferred_element_type=jnp.int32)
    logits = products.astype(jnp.float32) * query.shape[-1] ** -0.5
    if query_scale is not None:
        logits = logits * query_scale[..., None]
    if key_scale is not None:
        logits = logits * _repeat_heads(key_scale, query)[:, :, None]
    if causal:
        logits = jnp.where(jnp.tri(logits.shape[-2], logits.shape[-1], dtype=bool), logits, -jnp.inf)
    numbers = value.astype(jnp.float32) if value_scale is None else value.astype(jnp.float32) * value_scale[:, None]
    return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(logits, -1), _repeat_heads(numbers, query),
                      precision=jax.lax.Precision.HIGHEST)
