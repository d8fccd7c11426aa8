"""`curated_transformers.layers.SelfAttention` without rotary embeddings: with three projections, or with one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from curated_transformers.layers import AttentionHeads, AttentionMask, ScaledDotProductAttention, SelfAttention
from curated_transformers.layers.attention import QkvMode, QkvSplitGroupedByHead

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any


def attend(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
           mask: Tensor = None, causal: bool = False) -> Tensor:
    """X (B,T,M) to (B,T,M). In evaluation, without gradient unless the query requires one."""
    return _attend(query, params, heads, mask, QkvMode.SEPARATE, causal=causal)


def split_before(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                 mask: Tensor = None, causal: bool = False) -> Tensor:
    """One projection, whose output is split into heads first, and then into query, key and value."""
    return _attend(query, params, heads, mask, QkvMode.MERGED_SPLIT_BEFORE, causal=causal)


def split_after(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                mask: Tensor = None, causal: bool = False) -> Tensor:
    """One projection, whose output is split into query, key and value first, and then into heads."""
    return _attend(query, params, heads, mask, QkvMode.MERGED_SPLIT_AFTER, causal=causal)


def _attend(query: Tensor, params: Mapping[str, Tensor], heads: int, mask: Tensor, mode: QkvMode, *,
            causal: bool) -> Tensor:
    seen = torch.ones(query.shape[:2], dtype=torch.bool) if mask is None else mask
    with torch.set_grad_enabled(query.requires_grad):
        return _module(query, params, heads, mode)(query, AttentionMask(seen), use_causal_mask=causal)[0]


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, mode: QkvMode) -> Module:
    module = _empty_module(query.shape[-1], heads, query.dtype, mode)
    copy_into(module.output, params, "out")
    if mode is QkvMode.SEPARATE:
        for name in ("query", "key", "value"):
            copy_into(getattr(module, name), params, name)
        return module
    copy_into_one(module.input, params)
    if mode is QkvMode.MERGED_SPLIT_BEFORE:  # head by head, query, key and value side by side
        with torch.no_grad():
            for parameter in module.input.parameters():
                parameter.copy_(parameter.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2).clone())
    return module


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, dtype: Any, mode: QkvMode) -> Module:  # noqa: ANN401  (a torch.dtype)
    module = SelfAttention(
        attention_heads=AttentionHeads.uniform(heads, QkvSplitGroupedByHead()), hidden_width=width, use_bias=True,
        attention_scorer=ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None), qkv_mode=mode)
    return module.to(dtype).eval()
