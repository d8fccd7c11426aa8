"""The attention of `vit_pytorch.simple_vit` and `vit_pytorch.vit`: one input, no mask.

Both normalise their input first. That norm is made nn.Identity here; what is judged is the attention behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from ..timm import stand_in  # noqa: F401  (vit_pytorch imports torchvision)

# isort: split
from vit_pytorch import simple_vit as simple
from vit_pytorch import vit as dropping

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def simple_vit(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """Training mode, with gradient. There is no dropout."""
    return _simple(query, params, heads).train()(query)


def simple_vit_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor],  # noqa: ARG001  (key and value are the query)
                         heads: int) -> Tensor:
    """Evaluation mode, no gradient."""
    with torch.no_grad():
        return _simple(query, params, heads).eval()(query)


def vit(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """Training mode, with gradient, without dropout."""
    return _dropping(query, params, heads).train()(query)


def vit_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """Evaluation mode, no gradient."""
    with torch.no_grad():
        return _dropping(query, params, heads).eval()(query)


def vit_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """With a dropout of one half, in evaluation mode, where it should do nothing."""
    return _dropping(query, params, heads, dropout=0.5).eval()(query)


def _simple(query: Tensor, params: Mapping[str, Tensor], heads: int) -> Module:
    inner = params["w_query"].shape[1]
    module = _empty_simple(query.shape[-1], heads, inner // heads, query.dtype)
    copy_into_one(module.to_qkv, params)
    copy_into(module.to_out, params, "out")
    return module


def _dropping(query: Tensor, params: Mapping[str, Tensor], heads: int, dropout: float = 0.0) -> Module:
    """The output projection is left out by the layer itself where one head is as wide as the model."""
    inner = params["w_query"].shape[1]
    module = _empty_dropping(query.shape[-1], heads, inner // heads, query.dtype, dropout)
    copy_into_one(module.to_qkv, params)
    if not isinstance(module.to_out, nn.Identity):
        with torch.no_grad():
            module.to_out[0].weight.copy_(params["w_out"].T)
            module.to_out[0].bias.zero_()
    return module


@lru_cache(maxsize=64)
def _empty_simple(width: int, heads: int, head_width: int, dtype: Dtype) -> Module:
    module = simple.Attention(width, heads=heads, dim_head=head_width)
    module.norm = nn.Identity()
    return module.to(dtype)


@lru_cache(maxsize=64)
def _empty_dropping(width: int, heads: int, head_width: int, dtype: Dtype, dropout: float) -> Module:
    module = dropping.Attention(width, heads=heads, dim_head=head_width, dropout=dropout)
    module.norm = nn.Identity()
    return module.to(dtype)
