"""`curated_transformers.layers.SelfAttention` with three projections and without rotary embeddings, written out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from curated_transformers.layers import AttentionHeads, AttentionMask, ScaledDotProductAttention, SelfAttention
from curated_transformers.layers.attention import QkvMode, QkvSplitGroupedByHead

Tensor = Any  # torch is not seen by mypy
Module = Any


def attend(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
           mask: Tensor = None, causal: bool = False) -> Tensor:
    """X (B,T,M) to (B,T,M). In evaluation, without gradient."""
    seen = torch.ones(query.shape[:2], dtype=torch.bool) if mask is None else mask
    with torch.no_grad():
        return _module(query, params, heads)(query, AttentionMask(seen), use_causal_mask=causal)[0]


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int) -> Module:
    module = _empty_module(query.shape[-1], heads, query.dtype)
    with torch.no_grad():
        for name, linear in (("query", "query"), ("key", "key"), ("value", "value"), ("out", "output")):
            getattr(module, linear).weight.copy_(params[f"w_{name}"].T)
            getattr(module, linear).bias.copy_(params[f"b_{name}"])
    return module


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, dtype: Any) -> Module:  # noqa: ANN401  (a torch.dtype)
    module = SelfAttention(
        attention_heads=AttentionHeads.uniform(heads, QkvSplitGroupedByHead()), hidden_width=width, use_bias=True,
        attention_scorer=ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None), qkv_mode=QkvMode.SEPARATE)
    return module.to(dtype).eval()
