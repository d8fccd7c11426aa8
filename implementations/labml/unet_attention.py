"""`labml_nn.diffusion.ddpm.unet.AttentionBlock`: self-attention among the pixels of an image, one head by default.

The block adds its input to its answer. What attention alone answers is read where it leaves the block's `output`, the
output projection, before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from labml_nn.diffusion.ddpm.unet import AttentionBlock

Tensor = Any  # torch is not seen by mypy
Module = Any


def block(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query; there is one head)
    """X (B,T,M) to (B,T,M): an image of T pixels in a column, with M channels."""
    module = _module(query, params)
    leaving: list[Tensor] = []
    hook = module.output.register_forward_hook(lambda _, __, output: leaving.append(output.clone()))
    try:
        with torch.no_grad():
            module(query.transpose(1, 2)[..., None].contiguous())
    finally:
        hook.remove()
    return leaving[0]


def _module(query: Tensor, params: Mapping[str, Tensor]) -> Module:
    """The module with these parameters: its three projections stand in one matrix, transposed."""
    module = _empty_module(query.shape[-1], params["w_query"].shape[1], query.dtype)
    parts = ("query", "key", "value")
    with torch.no_grad():
        module.projection.weight.copy_(torch.cat([params[f"w_{part}"] for part in parts], dim=1).T)
        module.projection.bias.copy_(torch.cat([params[f"b_{part}"] for part in parts]))
        module.output.weight.copy_(params["w_out"].T)
        module.output.bias.copy_(params["b_out"])
    return module


@lru_cache(maxsize=64)
def _empty_module(channels: int, width: int, dtype: Any) -> Module:  # noqa: ANN401  (a torch.dtype)
    return AttentionBlock(channels, d_k=width, n_groups=1).to(dtype).eval()
