"""`x_transformers.Attention` as a decoder: the intermediates that a call returns are the cache of the next one.

It attends to its own input. So the model is three times as wide as asked for: query, key and value stand side by side
in its columns, each projection reads its third, and the output is written to the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Optional, Tuple

import torch
from x_transformers import Attention

from ..torch.parameters import copy_into_half

Tensor = Any  # torch is not seen by mypy
Module = Any
Cache = Any  # x_transformers.attend.Intermediates
Sizes = Tuple[int, int, int, int, int]
Dtype = Any
Window = Optional[Tuple[Optional[int], Optional[int]]]


def written_out(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Mapping[str, Tensor], heads: int,
                mask: Tensor = None, bias: Tensor = None, causal: bool = False, window: Window = None,
                return_weights: bool = False) -> tuple[Tensor, ...]:
    """Query, key and value (B,T,M) to (B,T,M), weights (B,H,T,P+T) if asked for, and the cache."""
    module = _module(query, params, heads, (causal, window[0] if window else None), flash=False)
    output, seen = _stepped(module, (query, key, value), cache, mask, bias)
    return (output, seen.post_softmax_attn, seen) if return_weights else (output, seen)


def flash(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Mapping[str, Tensor], heads: int,
          mask: Tensor = None, bias: Tensor = None, causal: bool = False,
          window: Window = None) -> tuple[Tensor, ...]:
    """The same on F.scaled_dot_product_attention."""
    module = _module(query, params, heads, (causal, window[0] if window else None), flash=True)
    return _stepped(module, (query, key, value), cache, mask, bias)


def _stepped(module: Module, new: tuple[Tensor, Tensor, Tensor], cache: Cache, mask: Tensor,
             bias: Tensor) -> tuple[Tensor, Cache]:
    """In evaluation, without gradient."""
    with torch.no_grad():
        output, seen = module(torch.cat(new, dim=-1), attn_mask=mask, attn_bias=bias, cache=cache,
                              return_intermediates=True)
    return output[..., :new[0].shape[2]], seen


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, seen: tuple[bool, int | None], *,
            flash: bool) -> Module:
    """Seen: whether causal, and how many keys back."""
    M, inner = params["w_query"].shape
    width = inner // heads
    kv_heads = params["w_key"].shape[1] // width
    module = _empty((M, heads, kv_heads, width, params["w_value"].shape[1] // kv_heads), query.dtype, seen, flash)
    for place, (name, linear) in enumerate({"query": "to_q", "key": "to_k", "value": "to_v"}.items()):
        copy_into_half(getattr(module, linear), params, name, first=place * M)
    with torch.no_grad():
        module.to_out.weight[:M] = params["w_out"].T
    return module


@lru_cache(maxsize=64)
def _empty(sizes: Sizes, dtype: Dtype, seen: tuple[bool, int | None], flash: bool) -> Module:
    """Of M, H, Hkv, D and Dv. `project_out`, since by default a single head has no output projection."""
    M, heads, kv_heads, width, value_width = sizes
    return Attention(3 * M, heads=heads, kv_heads=kv_heads, dim_head=width, value_dim_head=value_width,
                     causal=seen[0], max_attend_past=seen[1], flash=flash, project_out=True).to(dtype).eval()
