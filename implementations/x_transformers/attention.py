"""`x_transformers.Attention`: the layer. Its one context serves key and value alike, so key and value are put into it
side by side, and each projection reads its half. Its window is `max_attend_past`: so many keys back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Optional, Tuple

import torch
from x_transformers import Attention

from ..torch.parameters import copy_into, copy_into_half

Tensor = Any  # torch is not seen by mypy
Module = Any
Sizes = Tuple[int, int, int, int, int]
Dtype = Any
Window = Tuple[Optional[int], Optional[int]]


def attention(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
              mask: Tensor = None, bias: Tensor = None, causal: bool = False, window: Window | None = None,
              return_weights: bool = False) -> Tensor:
    """Written out; training mode, without dropout."""
    module = _module(query, params, heads, causal=causal, window=window).train()
    output, seen = module(query, torch.cat([key, value], dim=-1), attn_mask=mask, attn_bias=bias,
                          return_intermediates=True)
    return (output, seen.post_softmax_attn) if return_weights else output


def attention_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                        mask: Tensor = None, bias: Tensor = None, causal: bool = False,
                        window: Window | None = None) -> Tensor:
    """Written out; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    module = _module(query, params, heads, causal=causal, window=window, dropout=0.5).eval()
    with torch.no_grad():
        return module(query, torch.cat([key, value], dim=-1), attn_mask=mask, attn_bias=bias)


def flash(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
          mask: Tensor = None, bias: Tensor = None, causal: bool = False, window: Window | None = None) -> Tensor:
    """On F.scaled_dot_product_attention; training mode, without dropout."""
    module = _module(query, params, heads, causal=causal, window=window, flash=True).train()
    return module(query, torch.cat([key, value], dim=-1), attn_mask=mask, attn_bias=bias)


def flash_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                    mask: Tensor = None, bias: Tensor = None, causal: bool = False,
                    window: Window | None = None) -> Tensor:
    """On SDPA; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    module = _module(query, params, heads, causal=causal, window=window, flash=True, dropout=0.5).eval()
    with torch.no_grad():
        return module(query, torch.cat([key, value], dim=-1), attn_mask=mask, attn_bias=bias)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, *, causal: bool, window: Window | None,
            flash: bool = False, dropout: float = 0.0) -> Module:
    M, inner = params["w_query"].shape
    head_width = inner // heads
    kv_heads = params["w_key"].shape[1] // head_width
    sizes = (M, heads, kv_heads, head_width, params["w_value"].shape[1] // kv_heads)
    module = _empty(sizes, query.dtype, (causal, window[0] if window else None), flash, dropout)
    copy_into(module.to_q, params, "query")
    copy_into_half(module.to_k, params, "key", first=0)
    copy_into_half(module.to_v, params, "value", first=M)
    copy_into(module.to_out, params, "out")
    return module


@lru_cache(maxsize=64)
def _empty(sizes: Sizes, dtype: Dtype, seen: tuple[bool, int | None], flash: bool, dropout: float) -> Module:
    """Of M, H, Hkv, D and Dv; seen: whether causal, and how many keys back. `project_out`, since by default
    a single head has no output projection.
    """
    M, heads, kv_heads, head_width, value_width = sizes
    return Attention(M, dim_context=2 * M, heads=heads, kv_heads=kv_heads, dim_head=head_width,
                     value_dim_head=value_width, causal=seen[0], max_attend_past=seen[1], flash=flash, dropout=dropout,
                     project_out=True).to(dtype)
