"""`jax.nn.dot_product_attention` with the implementation `cudnn`. It puts T before H.

cuDNN takes widths that are multiples of 8 only (JAX says so). Others are filled up with zeros, and the scale stays that
of the width as it was.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = Any

MULTIPLE = 8


def _attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None) -> Array:
    """Query (B,H,T,D), key and value (B,Hkv,S,D) to (B,H,T,D)."""
    width = query.shape[-1]
    query, key, value = (_filled(each).swapaxes(1, 2) for each in (query, key, value))
    output = jax.nn.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal,
                                          scale=width ** -0.5 if scale is None else scale, implementation="cudnn")
    return output.swapaxes(1, 2)[..., :width]


def _filled(array: Array) -> Array:
    """With its last axis, (B,H,T,D), filled up to a multiple of 8."""
    return jnp.pad(array, ((0, 0), (0, 0), (0, 0), (0, -array.shape[-1] % MULTIPLE)))


attend = jax.jit(_attend, static_argnames=("causal", "scale"))
