"""`torch_multi_head_attention`: its function on arrays and its layer, without the activations it has by default.

The layer's mask is (B,T,S), non-zero = may attend, the same for all heads. The helper for causal masks makes squares
from one sequence and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch_multi_head_attention import MultiHeadAttention, ScaledDotProductAttention

from ..torch.parameters import copy_into

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None) -> Tensor:
    """ScaledDotProductAttention, with gradient."""
    return ScaledDotProductAttention()(*(tensor.requires_grad_() for tensor in (query, key, value)), mask)


def attend_without_gradient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None) -> Tensor:
    """ScaledDotProductAttention in evaluation mode."""
    with torch.no_grad():
        return ScaledDotProductAttention().eval()(query, key, value, mask)


def layer(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
          mask: Tensor = None) -> Tensor:
    """MultiHeadAttention(activation=None) in training mode."""
    return _module(query, params, heads).train()(query, key, value, None if mask is None else mask[:, 0])


def layer_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                    mask: Tensor = None) -> Tensor:
    """Evaluation mode, no gradient."""
    with torch.no_grad():
        return _module(query, params, heads).eval()(query, key, value, None if mask is None else mask[:, 0])


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int) -> Module:
    module = _empty(query.shape[-1], heads, query.dtype)
    names = {"query": module.linear_q, "key": module.linear_k, "value": module.linear_v, "out": module.linear_o}
    for name, linear in names.items():
        copy_into(linear, params, name)
    return module


@lru_cache(maxsize=64)
def _empty(width: int, heads: int, dtype: Dtype) -> Module:
    return MultiHeadAttention(width, heads, activation=None).to(dtype)
