"""`curated_transformers.layers.SelfAttention` as a decoder, with the `KeyValueCache` that it stores.

It attends to its own input, and its heads are as wide as the model divided by their number. So the model is three times
as wide as asked for, and has three times as many heads: query, key and value stand side by side in its columns, each
projection reads its third and writes to the first heads, the output goes to the first columns, and the other heads are
zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from curated_transformers.layers import AttentionHeads, AttentionMask, ScaledDotProductAttention, SelfAttention
from curated_transformers.layers.attention import QkvMode, QkvSplitGroupedByHead

Tensor = Any  # torch is not seen by mypy
Module = Any
Cache = Any  # curated_transformers.layers.KeyValueCache


def step(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Mapping[str, Tensor], heads: int,
         mask: Tensor = None, causal: bool = False, key_lengths: Tensor = None) -> tuple[Tensor, Cache]:
    """Query, key and value (B,T,M) to (B,T,M), and the cache. In evaluation, without gradient."""
    total = query.shape[1] + (0 if cache is None else cache.key.shape[2])
    module = _filled(query, params, heads)
    with torch.no_grad():
        output, cache = module(torch.cat([query, key, value], dim=-1), _shown(query, total, mask, key_lengths),
                               use_causal_mask=causal, cache=cache, store_cache=True)
    return output[..., :query.shape[2]], cache


def _shown(query: Tensor, total: int, mask: Tensor, lengths: Tensor) -> AttentionMask:
    """The mask over stored and new keys: (B,S), or (B,3H,T,S) with nothing hidden from heads that are zero."""
    B = query.shape[0]
    within = (torch.arange(total)[None] < (total if lengths is None else lengths[:, None])).expand(B, total)
    if mask is None:
        return AttentionMask(within)
    idle = torch.ones_like(mask).repeat(1, 2, 1, 1)
    return AttentionMask(torch.cat([mask & within[:, None, None], idle], dim=1))


def _filled(query: Tensor, params: Mapping[str, Tensor], heads: int) -> Module:
    module, M = _empty(3 * query.shape[2], 3 * heads, query.dtype), query.shape[2]
    with torch.no_grad():
        for place, name in enumerate(("query", "key", "value")):
            linear = getattr(module, name)
            linear.weight[:M, place * M:(place + 1) * M] = params[f"w_{name}"].T
            linear.bias[:M] = params[f"b_{name}"]
        module.output.weight[:M, :M] = params["w_out"].T
        module.output.bias[:M] = params["b_out"]
    return module


@lru_cache(maxsize=64)
def _empty(width: int, heads: int, dtype: Any) -> Module:  # noqa: ANN401  (a torch.dtype)
    """All parameters zero."""
    module = SelfAttention(
        attention_heads=AttentionHeads.uniform(heads, QkvSplitGroupedByHead()), hidden_width=width, use_bias=True,
        attention_scorer=ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None), qkv_mode=QkvMode.SEPARATE)
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return module.to(dtype).eval()
