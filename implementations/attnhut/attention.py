"""`attnhut.StandardAttention` and `GroupedQueryAttention`: self-attention on SDPA; causal is fixed in advance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from attnhut import GroupedQueryAttention, StandardAttention

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def standard(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
             mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """StandardAttention; training mode, without dropout."""
    return _standard(query, params, heads, causal=causal).train()(query, attn_mask=_joined(mask, bias))


def standard_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                       mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        module = _standard(query, params, heads, causal=causal, dropout=0.5).eval()
        return module(query, attn_mask=_joined(mask, bias))


def grouped(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
            mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """GroupedQueryAttention; training mode, without dropout."""
    return _grouped(query, params, heads, causal=causal).train()(query, attn_mask=_joined(mask, bias))


def grouped_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                      mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        module = _grouped(query, params, heads, causal=causal, dropout=0.5).eval()
        return module(query, attn_mask=_joined(mask, bias))


def _joined(mask: Tensor, bias: Tensor) -> Tensor:
    """A mask, a bias, or the bias with -inf where a key is hidden: there is one argument for both."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def _standard(query: Tensor, params: Mapping[str, Tensor], heads: int, *, causal: bool, dropout: float = 0.0) -> Module:
    module = _empty_standard(query.shape[-1], heads, query.dtype, causal, dropout)
    copy_into_one(module.qkv, params)
    copy_into(module.proj, params, "out")
    return module


def _grouped(query: Tensor, params: Mapping[str, Tensor], heads: int, *, causal: bool, dropout: float = 0.0) -> Module:
    width = query.shape[-1]
    kv_heads = params["w_key"].shape[1] * heads // width
    module = _empty_grouped(width, (heads, kv_heads), query.dtype, causal, dropout)
    for name, linear in {"query": module.q, "key": module.k, "value": module.v, "out": module.proj}.items():
        copy_into(linear, params, name)
    return module


@lru_cache(maxsize=64)
def _empty_standard(width: int, heads: int, dtype: Dtype, causal: bool, dropout: float) -> Module:
    return StandardAttention(width, heads, causal=causal, dropout=dropout, bias=True).to(dtype)


@lru_cache(maxsize=64)
def _empty_grouped(width: int, heads: tuple[int, int], dtype: Dtype, causal: bool, dropout: float) -> Module:
    return GroupedQueryAttention(width, *heads, causal=causal, dropout=dropout, bias=True).to(dtype)
