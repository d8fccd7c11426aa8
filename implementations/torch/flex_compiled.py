"""`flex_attention` as it is meant to be used: compiled. Each head width and use of keywords is a kernel of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

Tensor = Any  # torch is not seen by mypy


def compiled(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    """Compiled with open shapes. Without gradients, since on CPU it has no backward pass."""
    shape = (None, None, query.shape[2], key.shape[2])
    with torch.no_grad():
        return _compiled()(query, key, value,
                           block_mask=create_block_mask(_causal, *shape, device=query.device) if causal else None)


def _causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


@lru_cache(maxsize=1)
def _compiled() -> Any:  # noqa: ANN401  (a function that torch made)
    """Beyond the limit calls would silently not be compiled."""
    return torch.compile(flex_attention, dynamic=True, recompile_limit=256)
