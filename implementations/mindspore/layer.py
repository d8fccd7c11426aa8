"""`mindspore.nn.MultiheadAttention` on CPU, in PyNative mode.

As PyTorch's, its boolean mask is True where a key is hidden, and its weights are (out,in), three of them in one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import mindspore
import numpy as np
from mindspore import Tensor, nn

Array = Any
Module = Any
Params = Mapping[str, Array]


def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
           bias: Array = None, causal: bool = False, return_weights: bool = False) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked for. Training mode."""
    layer = _filled(query, params, heads, dropout=0.0).set_train()
    return _called(layer, (query, key, value), _attn_mask(query, key, mask, bias, causal), weights=return_weights)


def evaluation(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               bias: Array = None, causal: bool = False, return_weights: bool = False) -> Array:
    """As `attend`, in evaluation, with a dropout of one half, which should do nothing."""
    layer = _filled(query, params, heads, dropout=0.5).set_train(mode=False)
    return _called(layer, (query, key, value), _attn_mask(query, key, mask, bias, causal), weights=return_weights)


def _called(layer: Module, inputs: tuple[Array, ...], mask: Array, *, weights: bool) -> Array:
    tensors = [Tensor(np.ascontiguousarray(array)) for array in inputs]
    answer = layer(*tensors, need_weights=weights, attn_mask=mask, average_attn_weights=False)
    return tuple(tensor.asnumpy() for tensor in answer) if weights else answer[0].asnumpy()


def _attn_mask(query: Array, key: Array, mask: Array, bias: Array, causal: bool) -> Tensor | None:
    """Boolean (T,S) for the causal mask alone, else (B·H,T,S): boolean, or the bias with -inf where a key is hidden."""
    later = ~np.tri(query.shape[1], key.shape[1], dtype=bool) if causal else None
    hidden = later if mask is None else ~mask if later is None else ~mask | later
    if bias is not None:
        return _per_head(bias if hidden is None else np.where(hidden, np.array(-np.inf, bias.dtype), bias))
    return None if hidden is None else _per_head(hidden)


def _per_head(array: Array) -> Tensor:
    """(B,H,T,S) to (B·H,T,S); (T,S) stays."""
    return Tensor(np.ascontiguousarray(array.reshape(-1, *array.shape[-2:]) if array.ndim == 4 else array))


def _filled(query: Array, params: Params, heads: int, *, dropout: float) -> Module:
    layer, parts = _empty(query.shape[2], heads, str(query.dtype), dropout), ("query", "key", "value")
    values = {layer.in_proj_weight: np.concatenate([params[f"w_{part}"] for part in parts], axis=1).T,
              layer.in_proj_bias: np.concatenate([params[f"b_{part}"] for part in parts]),
              layer.out_proj.weight: params["w_out"].T, layer.out_proj.bias: params["b_out"]}
    for parameter, array in values.items():
        parameter.set_data(Tensor(np.ascontiguousarray(array)))
    return layer


@lru_cache(maxsize=128)
def _empty(M: int, heads: int, dtype: str, dropout: float) -> Module:
    return nn.MultiheadAttention(M, heads, dropout=dropout, batch_first=True, dtype=getattr(mindspore, dtype))
