"""The layers of the documents in JAX: single-head, multi-head with and without weights, and the paper's three uses."""

from __future__ import annotations

import math
from typing import Any, Mapping

import jax
import jax.numpy as jnp

from .compiled import hurried_jit

Array = Any
Params = Mapping[str, Array]

HIDDEN = -1e10  # "a very negative number" that `aiayn_notes` puts in the place of a hidden logit


def _single_head(query: Array, key: Array, value: Array, *, params: Params, heads: int,  # noqa: ARG001  (key and value are the query; there is one head)
                 return_weights: bool = False) -> Array:
    """X (B,T,M) to (B,T,M), without output projection; weights (B,1,T,T) if asked for (`self_attention_note`)."""
    attended, weights = _attend(*_projected(query, query, query, params, 1), visible=None)
    return (attended[:, 0], weights) if return_weights else attended[:, 0]


def _multi_head(query: Array, key: Array, value: Array, *, params: Params, heads: int,  # noqa: ARG001  (key and value are the query)
                return_weights: bool = False) -> Array:
    """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for (`self_attention_note`)."""
    attended, weights = _attend(*_projected(query, query, query, params, heads), visible=None)
    output = _concatenated(attended) @ params["w_out"] + params["b_out"]
    return (output, weights) if return_weights else output


def _multi_head_output(query: Array, key: Array, value: Array, *, params: Params, heads: int) -> Array:
    """X (B,T,M) to (B,T,M) (`self_attention_article`)."""
    return _multi_head(query, key, value, params=params, heads=heads)


def _paper(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
           causal: bool = False, return_weights: bool = False) -> Array:
    """Concat(head_1 … head_h) W^O: query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked."""
    Q, K, V = _projected(query, key, value, params, heads)
    visible = jnp.tri(Q.shape[2], K.shape[2], dtype=bool) if causal else jnp.array(True)
    attended, weights = _attend(Q, K, V, visible if mask is None else visible & mask)
    output = _concatenated(attended) @ params["w_out"]
    return (output, weights) if return_weights else output


def _attend(Q: Array, K: Array, V: Array, visible: Array | None) -> tuple[Array, Array]:
    """softmax(Q K^T / sqrt(d_k)) V: (B,H,T,Dv) and (B,H,T,S). Halves have their softmax in float32."""
    logits = (Q @ K.swapaxes(-1, -2)).astype(jnp.promote_types(Q.dtype, jnp.float32)) / math.sqrt(Q.shape[-1])
    if visible is not None:
        logits = jnp.where(visible, logits, HIDDEN)
    weights = jax.nn.softmax(logits, axis=-1).astype(Q.dtype)
    return weights @ V, weights


def _projected(query: Array, key: Array, value: Array, params: Params, heads: int) -> tuple[Array, Array, Array]:
    """Each input times its matrix, plus its bias if there is one, split into heads: (B,H,L,D)."""
    inputs = {"query": query, "key": key, "value": value}
    projected = [X @ params[f"w_{name}"] + params.get(f"b_{name}", 0) for name, X in inputs.items()]
    Q, K, V = (X.reshape(*X.shape[:2], heads, -1).swapaxes(1, 2) for X in projected)
    return Q, K, V


def _concatenated(attended: Array) -> Array:
    """(B,H,T,Dv) to (B,T,H·Dv)."""
    B, H, T, Dv = attended.shape
    return attended.swapaxes(1, 2).reshape(B, T, H * Dv)


single_head = hurried_jit(_single_head, "heads", "return_weights")
multi_head = hurried_jit(_multi_head, "heads", "return_weights")
multi_head_output = hurried_jit(_multi_head_output, "heads")
paper = hurried_jit(_paper, "heads", "causal", "return_weights")
