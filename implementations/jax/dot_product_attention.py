"""`jax.nn.dot_product_attention`: op by op, under jit, and under jit by the default compiler. It puts T before H."""

from __future__ import annotations

from typing import Any

import jax
from attnspec.adapters.jax.compiled import hurried_jit

Array = Any


def eager(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
          scale: float | None = None) -> Array:
    """Query (B,H,T,D), key and value (B,Hkv,S,D) to (B,H,T,D)."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    output = jax.nn.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale)
    return output.swapaxes(1, 2)


jitted = hurried_jit(eager, "causal")
default_compiler = jax.jit(eager, static_argnames=("causal",))
