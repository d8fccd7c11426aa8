"""`timm.layers.Attention`: self-attention with masks and the causal flag, on the fused kernel or written out.

Which of the two a layer takes is fixed where it is built, by `timm.layers.set_fused_attn` or TIMM_FUSED_ATTN, and kept
in its attribute `fused_attn`. There is one argument for mask and bias: boolean (True = may attend) or to be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from . import stand_in  # noqa: F401  (must come before timm)

# isort: split
from timm.layers import Attention

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def fused(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
          mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """On F.scaled_dot_product_attention, in training without dropout."""
    return _attend(_module(query, params, heads, fused=True).train(), query, mask, bias, causal=causal)


def fused_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                    mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Evaluation mode, no gradient."""
    with torch.no_grad():
        return _attend(_module(query, params, heads, fused=True).eval(), query, mask, bias, causal=causal)


def fused_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                       mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """With a dropout of one half, in evaluation mode, where it should do nothing."""
    module = _module(query, params, heads, fused=True, dropout=0.5).eval()
    return _attend(module, query, mask, bias, causal=causal)


def unfused(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
            mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Written out, in training without dropout."""
    return _attend(_module(query, params, heads, fused=False).train(), query, mask, bias, causal=causal)


def unfused_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                      mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Written out; evaluation mode, no gradient."""
    with torch.no_grad():
        return _attend(_module(query, params, heads, fused=False).eval(), query, mask, bias, causal=causal)


def unfused_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                         mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Written out, with a dropout of one half, in evaluation mode, where it should do nothing."""
    module = _module(query, params, heads, fused=False, dropout=0.5).eval()
    return _attend(module, query, mask, bias, causal=causal)


def _attend(module: Module, query: Tensor, mask: Tensor, bias: Tensor, *, causal: bool) -> Tensor:
    both = bias.masked_fill(~mask, float("-inf")) if mask is not None and bias is not None else None
    attn_mask = next((tensor for tensor in (both, mask, bias) if tensor is not None), None)
    return module(query, attn_mask=attn_mask, is_causal=causal)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, *, fused: bool, dropout: float = 0.0) -> Module:
    module = _empty(query.shape[-1], heads, query.dtype, fused, dropout)
    copy_into_one(module.qkv, params)
    copy_into(module.proj, params, "out")
    return module


@lru_cache(maxsize=64)
def _empty(width: int, heads: int, dtype: Dtype, fused: bool, dropout: float) -> Module:
    module = Attention(width, heads, qkv_bias=True, attn_drop=dropout).to(dtype)
    module.fused_attn = fused
    return module
