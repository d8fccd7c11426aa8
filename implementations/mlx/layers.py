"""`mlx.nn.MultiHeadAttention`, whose only mask is additive; its own helper makes a causal one, square only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import mlx.core as mx
from mlx import nn

from .arrays import to_mlx, to_numpy

Array = Any
Module = Any
Params = Mapping[str, Array]

PROJECTIONS = {"query": "query_proj", "key": "key_proj", "value": "value_proj", "out": "out_proj"}


def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
           bias: Array = None) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M)."""
    del mask  # declared: it arrives as bias
    layer = _filled(query, params, heads)
    return to_numpy(layer(*map(to_mlx, (query, key, value)), mask=to_mlx(bias)))


def self_attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,  # noqa: ARG001  (key and value are the query)
                bias: Array = None, causal: bool = False) -> Array:
    """X (B,T,M) to (B,T,M), causal by `create_additive_causal_mask`."""
    del mask  # declared: it arrives as bias
    X, added = to_mlx(query), to_mlx(bias)
    if causal:
        later = nn.MultiHeadAttention.create_additive_causal_mask(query.shape[1], X.dtype)
        added = later if added is None else added + later
    return to_numpy(_filled(query, params, heads)(X, X, X, mask=added))


def _filled(query: Array, params: Params, heads: int) -> Module:
    """The module with these parameters; its weights are (out,in)."""
    layer = _empty(query.shape[2], params["w_query"].shape[1], params["w_value"].shape[1], heads)
    layer.update({theirs: {"weight": to_mlx(params[f"w_{ours}"].T.copy()), "bias": to_mlx(params[f"b_{ours}"])}
                  for ours, theirs in PROJECTIONS.items()})
    return layer


@lru_cache(maxsize=64)
def _empty(M: int, width: int, value_width: int, heads: int) -> Module:
    return nn.MultiHeadAttention(width, heads, query_input_dims=M, key_input_dims=M, value_input_dims=M,
                                 value_dims=value_width, value_output_dims=M, bias=True)


mx.set_default_device(mx.cpu)
