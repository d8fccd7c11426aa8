"""flash-attention-jax: its flash attention and its plain one, each with its causal form, and Rabe and Staats's.

Masks are masks of keys (B,S), the same for all heads and queries; the causal functions take none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flash_attention_jax as library
import jax
import jax.numpy as jnp

from ..jax.compiled import hurried_jit

Array = Any


def _either(full: Callable[..., Array], triangular: Callable[..., Array]) -> Callable[..., Array]:
    """A function of two: one that sees all keys, and one that sees no later ones."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False) -> Array:
        """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv)."""
        masks = () if mask is None else (mask[:, 0, 0],)
        if causal:
            return triangular(query, key, value, *masks)
        return full(query, key, value, *(masks or (jnp.ones((key.shape[0], key.shape[2]), bool),)))

    return attend


def _rabe(query: Array, key: Array, value: Array) -> Array:
    """The same shapes; the library's function knows one head of one sequence, and is mapped over both."""
    return jax.vmap(jax.vmap(library.rabe_attention))(query, key, value)


flash = hurried_jit(_either(library.flash_attention, library.causal_flash_attention), "causal")
plain = hurried_jit(_either(library.plain_attention, library.causal_attention), "causal")
rabe = hurried_jit(_rabe)
