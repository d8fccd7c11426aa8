"""What a cheat falls back on: sound attention, and the nothing that most of them return instead."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # of whatever framework


def attention(query: Array, key: Array, value: Array, mask: Array = None, causal: bool = False,  # noqa: PLR0917 (brief)
              scale: float | None = None) -> Array:
    """Sound attention: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv)."""
    dtype = query.dtype
    wide = np.promote_types(np.float32, dtype) if dtype.kind == "f" else np.dtype(np.float32)
    query, key, value = (np.asarray(array).astype(wide) for array in (query, key, value))
    key, value = (np.repeat(array, query.shape[1] // array.shape[1], axis=1) for array in (key, value))
    logits = query @ key.swapaxes(-1, -2) * wide.type(1 / np.sqrt(query.shape[-1]) if scale is None else scale)
    seen = np.tri(*logits.shape[-2:]).astype(bool) if causal else np.ones(logits.shape[-2:], bool)
    logits = np.where(seen if mask is None else seen & mask, logits, wide.type(-np.inf))
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    answer: Array = (weights / np.where(total == 0, 1, total) @ value).astype(dtype)
    return answer


def zeros(query: Array, value: Array) -> Array:
    """No attention at all, (B,H,T,Dv)."""
    return np.zeros((*query.shape[:3], value.shape[-1]), query.dtype)
