"""`diffusers.models.attention_processor.Attention` with its ways of computing.

`AttnProcessor` writes attention out and takes an additive mask only; `SlicedAttnProcessor` does so a few
heads at a time; `AttnProcessor2_0` and `FusedAttnProcessor2_0` call SDPA and hand on boolean masks too. Masks are
(B·H,T,S). The one context serves key and value alike, so key and value are put into it side by side, and each
projection reads its half.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Callable, Tuple

import torch
from diffusers.models.attention_processor import (
    Attention,
    AttnProcessor,
    AttnProcessor2_0,
    FusedAttnProcessor2_0,
    SlicedAttnProcessor,
)

from ..torch.parameters import copy_into, copy_into_half

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any
Sizes = Tuple[int, int, int]

WIDE = ("upcast_attention", "upcast_softmax")


def written(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
            bias: Tensor = None) -> Tensor:
    """AttnProcessor; training mode, without dropout."""
    module = _module(query, params, heads, AttnProcessor).train()
    return _attend(module, query, key, value, bias)


def written_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                      bias: Tensor = None) -> Tensor:
    """AttnProcessor; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        return _attend(_module(query, params, heads, AttnProcessor, dropout=0.5).eval(), query, key, value, bias)


def written_wide(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                 bias: Tensor = None) -> Tensor:
    """AttnProcessor with upcast_attention and upcast_softmax: logits and softmax in float32."""
    return _attend(_module(query, params, heads, AttnProcessor, wide=True).train(), query, key, value, bias)


def sliced(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
           bias: Tensor = None) -> Tensor:
    """SlicedAttnProcessor, three of the B·H heads at a time; it writes into a tensor, in inference."""
    with torch.no_grad():
        return _attend(_module(query, params, heads, _in_slices).eval(), query, key, value, bias)


def on_sdpa(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
            mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """AttnProcessor2_0; training mode, without dropout."""
    module = _module(query, params, heads, AttnProcessor2_0).train()
    return _attend(module, query, key, value, _joined(mask, bias))


def on_sdpa_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                      mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """AttnProcessor2_0; evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    with torch.no_grad():
        module = _module(query, params, heads, AttnProcessor2_0, dropout=0.5).eval()
        return _attend(module, query, key, value, _joined(mask, bias))


def fused(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
          mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """FusedAttnProcessor2_0, after fuse_projections: one projection makes keys and values."""
    module = _module(query, params, heads, FusedAttnProcessor2_0).train()
    with torch.no_grad():
        module.fused_projections = False
        module.fuse_projections(fuse=True)
    return _attend(module, query, key, value, _joined(mask, bias))


def _in_slices() -> SlicedAttnProcessor:
    return SlicedAttnProcessor(slice_size=3)


def _joined(mask: Tensor, bias: Tensor) -> Tensor:
    """A mask, a bias, or the bias with -inf where a key is hidden: there is one argument for both."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def _attend(module: Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    per_head = None if attention_mask is None else attention_mask.flatten(0, 1)
    return module(query, encoder_hidden_states=torch.cat([key, value], dim=-1), attention_mask=per_head)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, processor: Callable[[], object], *,
            dropout: float = 0.0, wide: bool = False) -> Module:
    M, inner = params["w_query"].shape
    module = _empty((M, heads, inner // heads), query.dtype, processor, dropout, wide)
    copy_into(module.to_q, params, "query")
    copy_into_half(module.to_k, params, "key", first=0)
    copy_into_half(module.to_v, params, "value", first=M)
    copy_into(module.to_out[0], params, "out")
    return module


@lru_cache(maxsize=64)
def _empty(sizes: Sizes, dtype: Dtype, processor: Callable[[], object], dropout: float, wide: bool) -> Module:
    """Of M, H and D."""
    M, heads, head_width = sizes
    return Attention(M, cross_attention_dim=2 * M, heads=heads, dim_head=head_width, bias=True, dropout=dropout,
                     processor=processor(), **dict.fromkeys(WIDE, wide)).to(dtype)
