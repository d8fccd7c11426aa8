"""Multi-head self-attention after the blog note `msa_note`: one fused projection, an additive mask, nothing else.

Kept as documented, flaw included: under NumPy 2, dividing by `np.sqrt(...)` promotes float32 (and halves) to float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def msa(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, mask: Array | None = None,  # noqa: ARG001  (self-attention: key and value are the query)
        bias: Array | None = None, causal: bool = False, return_weights: bool = False) -> Any:
    """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
    fused = np.concatenate([params["w_query"], params["w_key"], params["w_value"]], axis=1)  # W_QKV (M,3M)
    additive = additive_mask(query, mask=mask, bias=bias, causal=causal)
    output, weights = multi_head_self_attention(query, additive, heads, fused, params["w_out"])
    return (output, weights) if return_weights else output


def multi_head_self_attention(X: Array, mask: Array, heads: int, w_qkv: Array, w_out: Array) -> tuple[Array, Array]:
    """The note's six steps."""
    B, T, M = X.shape
    parts = np.split(X @ w_qkv, 3, axis=-1)  # 1: project
    query, key, value = (part.reshape(B, T, heads, M // heads).swapaxes(1, 2) for part in parts)  # 2: split heads
    weights = softmax(query @ key.swapaxes(-1, -2) / np.sqrt(M // heads) + mask)  # 3: (B,H,T,T)
    attended = weights @ value  # 4: (B,H,T,M/H)
    return attended.swapaxes(1, 2).reshape(B, T, M) @ w_out, weights  # 5 and 6: concatenate, project


def softmax(logits: Array) -> Array:
    """Along the last axis, after subtracting the row's maximum."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return result


def additive_mask(X: Array, *, mask: Array | None, bias: Array | None, causal: bool) -> Array:
    """The note's M: 0 (or the bias) where a query may attend, -inf where it may not; for causal use, above the diagonal."""
    additive = np.zeros((), X.dtype) if bias is None else bias
    if mask is not None:
        additive = np.where(mask, additive, np.array(-np.inf, X.dtype))
    if causal:
        T = X.shape[1]
        additive = np.where(np.tri(T, dtype=bool), additive, np.array(-np.inf, X.dtype))
    return additive
