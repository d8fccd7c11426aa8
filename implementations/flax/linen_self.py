"""flax.linen's `MultiHeadDotProductAttention` on one input: the way of calling it that every release has had.

Releases before 0.7.4 take one input for keys and values together, and compute in float32 unless told a dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import linen

from ..jax.compiled import hurried_jit
from .parameters import kernels

Array = Any


def _attend(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int,  # noqa: ARG001  (key and value are the query)
            mask: Array = None, causal: bool = False) -> Array:
    """X (B,T,M) to (B,T,M)."""
    X, features = query, params["w_query"].shape[1]
    if causal:
        mask = linen.combine_masks(mask, linen.make_causal_mask(jnp.zeros(X.shape[:2])))
    layer = linen.MultiHeadDotProductAttention(num_heads=heads, dtype=X.dtype, qkv_features=features,
                                               out_features=params["w_out"].shape[1])
    return layer.apply({"params": kernels(params, heads)}, X, X, mask=mask, deterministic=True)


attend = hurried_jit(_attend, "heads", "causal")
