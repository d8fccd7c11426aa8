"""`haiku.MultiHeadAttention`, which keeps its parameters apart from itself, under the names of its linear maps."""

from __future__ import annotations

from typing import Any, Mapping

import haiku
import jax.numpy as jnp

from ..jax.compiled import hurried_jit

Array = Any
Params = Mapping[str, Array]

LINEAR = {"query": "query", "key": "key", "value": "value", "out": "linear"}


def attend_eager(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M)."""
    sizes = {"key_size": params["w_query"].shape[1] // heads, "value_size": params["w_value"].shape[1] // heads,
             "model_size": params["w_out"].shape[1]}

    def forward(*inputs: Array) -> Array:
        return haiku.MultiHeadAttention(heads, w_init=jnp.zeros, name="mha", **sizes)(*inputs, mask=mask)

    kept = {f"mha/{linear}": {"w": params[f"w_{name}"], "b": params[f"b_{name}"]} for name, linear in LINEAR.items()}
    return haiku.transform(forward).apply(kept, None, query, key, value)


attend = hurried_jit(attend_eager, "heads")
