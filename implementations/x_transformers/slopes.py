"""`x_transformers.attend.Attend` with the bias of `AlibiPositionalBias`, whose slopes can be given."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from x_transformers.attend import Attend
from x_transformers.x_transformers import AlibiPositionalBias

Tensor = Any  # torch is not seen by mypy
Module = Any


def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
           scale: float | None = None, alibi_slopes: Tensor = None) -> Tensor:
    """Written out; training mode, without dropout."""
    bias = _bias(query, key, alibi_slopes)
    return _module(causal, scale, False).train()(query, key, value, mask=mask, attn_bias=bias)[0]


def flash(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
          scale: float | None = None, alibi_slopes: Tensor = None) -> Tensor:
    """On F.scaled_dot_product_attention; training mode, without dropout."""
    bias = _bias(query, key, alibi_slopes)
    return _module(causal, scale, True).train()(query, key, value, mask=mask, attn_bias=bias)[0]


def _bias(query: Tensor, key: Tensor, slopes: Tensor) -> Tensor | None:
    """The module's bias (H,T,S), in the dtype of the model; (B,H,T,S) of a module for each entry where entries have
    their own slopes.
    """
    if slopes is None:
        return None
    T, S = query.shape[2], key.shape[2]
    made = [_alibi(tuple(own.tolist()), query.dtype)(T, S) for own in torch.atleast_2d(slopes)]
    return made[0] if slopes.dim() == 1 else torch.stack(made)


def _alibi(slopes: tuple[float, ...], dtype: Any) -> Module:  # noqa: ANN401  (a torch.dtype)
    return AlibiPositionalBias(heads=len(slopes), slopes=slopes).to(dtype)


@lru_cache(maxsize=64)
def _module(causal: bool, scale: float | None, is_flash: bool) -> Module:
    return Attend(causal=causal, scale=scale, flash=is_flash)
