"""`flax.linen.dot_product_attention` with a dropout rate: what is dropped is shared, its default, or not."""

from __future__ import annotations

from typing import Any, Callable

import jax
from flax import linen

from ..jax.compiled import hurried_jit
from .linen import with_triangle

Array = Any


def _function(**switches: object) -> Callable[..., Array]:
    """`linen.dot_product_attention`, with these of its keywords set."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
               dropout_rate: float = 0.0, seed: int | None = None) -> Array:
        """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv)."""
        query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
        given = {"bias": bias, "mask": with_triangle(mask, query.shape[1], key.shape[1], causal), **switches}
        drawn = None if seed is None else jax.random.PRNGKey(seed)
        output = linen.dot_product_attention(query, key, value, dropout_rate=dropout_rate, dropout_rng=drawn, **given)
        return output.swapaxes(1, 2)

    return attend


shared = hurried_jit(_function(), "causal", "dropout_rate")
apart = hurried_jit(_function(broadcast_dropout=False), "causal", "dropout_rate")
