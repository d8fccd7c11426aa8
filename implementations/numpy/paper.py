"""Multi-head attention as the paper defines it and `aiayn_notes` retells it: Concat(head_1 … head_h) W^O.

The three uses are three ways to call one layer: in the encoder query, key and value are the same sequence; in the
decoder too, with `causal`; between them the query comes from the decoder, key and value from the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Array = np.ndarray  # numpy.typing has no NDArray before NumPy 1.21

HIDDEN = -1e10  # "a very negative number" that the notes put in the place of a hidden logit


def multi_head(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int,
               mask: Array | None = None, causal: bool = False,
               return_weights: bool = False) -> Array | tuple[Array, Array]:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked for."""
    dtype, wide = query.dtype, np.promote_types(query.dtype, np.float32)  # halves are computed with in float32
    inputs = {"query": query, "key": key, "value": value}
    Q, K, V = (_heads(x.astype(wide) @ params[f"w_{name}"].astype(wide), heads) for name, x in inputs.items())
    visible = np.tri(Q.shape[2], K.shape[2], dtype=bool) if causal else np.ones((), bool)
    attended, weights = _attention(Q, K, V, visible if mask is None else visible & mask)
    B, H, T, Dv = attended.shape
    output = attended.swapaxes(1, 2).reshape(B, T, H * Dv) @ params["w_out"].astype(wide)
    return (output.astype(dtype), weights.astype(dtype)) if return_weights else output.astype(dtype)


def _attention(Q: Array, K: Array, V: Array, visible: Array) -> tuple[Array, Array]:
    """softmax(Q K^T / sqrt(d_k)) V, hidden logits replaced before the softmax: (B,H,T,Dv) and (B,H,T,S)."""
    logits = Q @ K.swapaxes(-1, -2) / Q.dtype.type(math.sqrt(Q.shape[-1]))
    logits = np.where(visible, logits, Q.dtype.type(HIDDEN))
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def _heads(projected: Array, heads: int) -> Array:
    """(B,L,H·D) to (B,H,L,D)."""
    B, length, width = projected.shape
    return projected.reshape(B, length, heads, width // heads).swapaxes(1, 2)
