"""The attention of `vit_pytorch.simple_flash_attn_vit`: one input, no mask. Its norm is made nn.Identity."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from torch import nn

from ..timm import stand_in  # noqa: F401  (vit_pytorch imports torchvision)

# isort: split
from vit_pytorch.simple_flash_attn_vit import Attention

from ..torch.parameters import copy_into, copy_into_one

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def fused(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """use_flash=True: F.scaled_dot_product_attention. Training mode, with gradient."""
    return _module(query, params, heads, use_flash=True).train()(query)


def written_out(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """use_flash=False. Training mode, with gradient."""
    return _module(query, params, heads, use_flash=False).train()(query)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, *, use_flash: bool) -> Module:
    module = _empty(query.shape[-1], heads, params["w_query"].shape[1] // heads, query.dtype, use_flash)
    copy_into_one(module.to_qkv, params)
    copy_into(module.to_out, params, "out")
    return module


@lru_cache(maxsize=64)
def _empty(width: int, heads: int, head_width: int, dtype: Dtype, use_flash: bool) -> Module:  # a cache's key
    module = Attention(width, heads=heads, dim_head=head_width, use_flash=use_flash)
    module.norm = nn.Identity()
    return module.to(dtype)
