"""`paddle.nn.MultiHeadAttention` on CPU, whose weights are (in,out). It has no causal flag."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import paddle
from paddle import nn

from .attention import attn_mask

Array = Any
Module = Any
Params = Mapping[str, Array]

PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
           bias: Array = None, return_weights: bool = False) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked for. Training, with gradient."""
    layer = _filled(query, params, heads, dropout=0.0, weights=return_weights).train()
    return _called(layer, (query, key, value), attn_mask(mask, bias), weights=return_weights)


def evaluation(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               bias: Array = None, return_weights: bool = False) -> Array:
    """As `attend`, in evaluation and without gradient, with a dropout of one half, which should do nothing."""
    layer = _filled(query, params, heads, dropout=0.5, weights=return_weights).eval()
    with paddle.no_grad():
        return _called(layer, (query, key, value), attn_mask(mask, bias), weights=return_weights)


def _called(layer: Module, inputs: tuple[Array, ...], mask: Array, *, weights: bool) -> Array:
    answer = layer(*map(paddle.to_tensor, inputs), attn_mask=mask)
    return tuple(tensor.numpy() for tensor in answer) if weights else answer.numpy()


def _filled(query: Array, params: Params, heads: int, *, dropout: float, weights: bool) -> Module:
    layer = _empty(query.shape[2], heads, str(query.dtype), dropout, weights)
    for ours, theirs in PROJECTIONS.items():
        projection = getattr(layer, theirs)
        projection.weight.set_value(params[f"w_{ours}"])
        projection.bias.set_value(params[f"b_{ours}"])
    return layer


@lru_cache(maxsize=128)
def _empty(M: int, heads: int, dtype: str, dropout: float, weights: bool) -> Module:  # a cache's key
    layer = nn.MultiHeadAttention(M, heads, dropout=dropout, need_weights=weights)
    return layer.to(dtype=dtype)
