"""Scaled dot-product attention over packed sequences, which stand one behind the other without padding."""

from __future__ import annotations

import math

import numpy as np

from .attention import Array, softmax, wide_of


def attention(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = False,
              scale: float | None = None) -> Array:
    """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv) to (Nq,H,Dv). Sequence b has the queries from cu_query[b] up to
    cu_query[b+1], and the keys from cu_key[b] up to cu_key[b+1]; a query without a key gets zeros.
    """
    output = np.zeros((*query.shape[:2], value.shape[-1]), query.dtype)
    for b in range(len(cu_query) - 1):
        own, keys = slice(*cu_query[b:b + 2]), slice(*cu_key[b:b + 2])
        if own.stop > own.start and keys.stop > keys.start:
            output[own] = one_sequence(query[own], key[keys], value[keys], causal=causal, scale=scale)
    return output


def one_sequence(query: Array, key: Array, value: Array, *, causal: bool, scale: float | None) -> Array:
    """Query (T,H,D), key (S,Hkv,D), value (S,Hkv,Dv) of one sequence to (T,H,Dv)."""
    dtype, wide = query.dtype, wide_of(query)
    query, key, value = (array.astype(wide).swapaxes(0, 1) for array in (query, key, value))
    key, value = (np.repeat(array, len(query) // len(array), axis=0) for array in (key, value))
    logits = query @ key.swapaxes(-1, -2) * wide.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if causal:
        logits = np.where(np.tri(logits.shape[1], logits.shape[2], dtype=bool), logits, wide.type(-np.inf))
    output: Array = softmax(logits) @ value
    return output.swapaxes(0, 1).astype(dtype)
