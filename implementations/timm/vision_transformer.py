"""`timm.models.vision_transformer.Attention`, as every release since 0.5 has it: one input, no mask.

Newer releases re-export `timm.layers.Attention` under this name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from . import stand_in  # noqa: F401  (must come before timm)

# isort: split
from timm.models.vision_transformer import Attention

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def training(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """In training without dropout, fused where the release can."""
    return _module(query, params, heads).train()(query)


def inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """Evaluation mode, no gradient."""
    with torch.no_grad():
        return _module(query, params, heads).eval()(query)


def dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """With a dropout of one half, in evaluation mode, where it should do nothing."""
    return _module(query, params, heads, dropout=0.5).eval()(query)


def unfused(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """Written out, with a dropout of one half, in evaluation mode, where it should do nothing."""
    return _module(query, params, heads, dropout=0.5, fused=False).eval()(query)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, dropout: float = 0.0, *,
            fused: bool = True) -> Module:
    module = _empty(query.shape[-1], heads, query.dtype, dropout)
    copy_into_one(module.qkv, params)
    copy_into(module.proj, params, "out")
    module.fused_attn = fused
    return module


@lru_cache(maxsize=64)
def _empty(width: int, heads: int, dtype: Dtype, dropout: float) -> Module:
    return Attention(width, heads, qkv_bias=True, attn_drop=dropout).to(dtype)
