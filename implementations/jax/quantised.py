"""Attention over a float8 or int4 cache in JAX: codes are converted and scaled inside, under jit."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="causal")
def over_cache(query, key, value, *, causal=False, key_scale=None, value_scale=None):
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (B,Hkv) of each, to (B,H,T,Dv)."""
    wide = query.dtype if query.dtype == jnp.float64 else jnp.float32
    logits = jnp.einsum("bhtd,bhsd->bhts", query.astype(wide), _heads(key.astype(wide), query),
                        precision=jax.lax.Precision.HIGHEST) * query.shape[-1] ** -0.5
    if key_scale is not None:
        logits = logits * _heads(key_scale, query)[:, :, None, None].astype(wide)
    if causal:
        logits = jnp.where(jnp.tri(*logits.shape[-2:], dtype=bool), logits, -jnp.inf)
    # without it XLA forms the logits twice, once for their maximum and once for the exponential, and rounds them apart
    logits = jax.lax.optimization_barrier(logits)
    output = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(logits, -1), _heads(value.astype(wide), query),
                        precision=jax.lax.Precision.HIGHEST)
    if value_scale is not None:
        output = output * _heads(value_scale, query)[:, :, None, None].astype(wide)
    return output.astype(query.dtype)


def _heads(array, query):
    """(B,Hkv,…) -> (B,H,…): each head of keys and values serves H / Hkv neighbouring queries."""
    return jnp.repeat(array, query.shape[1] // array.shape[1], axis=1)
