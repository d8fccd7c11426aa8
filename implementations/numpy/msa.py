"""Multi-head self-attention after the blog note `msa_note`: one fused projection, an additive mask, nothing else.

Kept as documented, flaw included: under NumPy 2, dividing by `np.sqrt(...)` promotes float32 (and halves) to float64.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Array = np.ndarray  # numpy.typing has no NDArray before NumPy 1.21


def msa(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int,  # noqa: ARG001  (key and value are the query)
        mask: Array | None = None, bias: Array | None = None, causal: bool = False,
        return_weights: bool = False) -> Array | tuple[Array, Array]:
    """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
    w_qkv = np.concatenate([params["w_query"], params["w_key"], params["w_value"]], axis=1)  # (M,3M)
    added = _additive(query, mask=mask, bias=bias, causal=causal)
    output, weights = _multi_head_self_attention(query, added, heads, w_qkv, params["w_out"])
    return (output, weights) if return_weights else output


def _multi_head_self_attention(X: Array, added: Array, heads: int, w_qkv: Array, w_out: Array) -> tuple[Array, Array]:
    """The note's six steps."""
    B, T, M = X.shape
    projected = np.split(X @ w_qkv, 3, axis=-1)  # 1: (B,T,3M) to three of (B,T,M)
    query, key, value = (part.reshape(B, T, heads, M // heads).swapaxes(1, 2) for part in projected)  # 2: (B,H,T,M/H)
    weights = _softmax(query @ key.swapaxes(-1, -2) / np.sqrt(M // heads) + added)  # 3: (B,H,T,T)
    attended = weights @ value  # 4: (B,H,T,M/H)
    return attended.swapaxes(1, 2).reshape(B, T, M) @ w_out, weights  # 5: (B,T,M), 6: (B,T,M)


def _softmax(logits: Array) -> Array:
    """Along the last axis, after subtracting the row's maximum."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights


def _additive(X: Array, *, mask: Array | None, bias: Array | None, causal: bool) -> Array:
    """The note's M: the bias (or 0) where a query may attend and -inf where it may not, as above the diagonal."""
    added = np.zeros((), X.dtype) if bias is None else bias
    hidden = np.array(-np.inf, X.dtype)
    if mask is not None:
        added = np.where(mask, added, hidden)
    if causal:
        added = np.where(np.tri(X.shape[1], dtype=bool), added, hidden)
    return added
