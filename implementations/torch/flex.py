"""`torch.nn.attention.flex_attention`: masks and biases are functions of the indices, which the caller writes.

Run as it stands, not compiled, it computes all logits. The functions here are those of its documentation: a mask and a
bias are looked up in a captured tensor, causal is `q_idx >= kv_idx`, a window two comparisons, a soft cap a tanh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

Tensor = Any  # torch is not seen by mypy
Mod = Callable[..., Tensor]


def flex(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
         scale: float | None = None) -> Tensor:
    """Eager. Without gradients, since on CPU it has no backward pass."""
    with torch.no_grad():
        return _attend(flex_attention, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def _attend(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, bias: Tensor,
            causal: bool, scale: float | None) -> Tensor:
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    mask_mods = [_looked_up(mask.expand(shape))] if mask is not None else []
    mask_mods += [_causal] if causal else []
    block_mask = create_block_mask(_all_of(mask_mods), *shape, device="cpu") if mask_mods else None
    score_mod = _adding(bias.expand(shape)) if bias is not None else None
    return attend(query, key, value, score_mod=score_mod, block_mask=block_mask, scale=scale,
                  enable_gqa=key.shape[1] != query.shape[1])


def _looked_up(mask: Tensor) -> Mod:
    return lambda b, h, i, j: mask[b, h, i, j]


def _causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def _all_of(mods: list[Mod]) -> Mod:
    return mods[0] if len(mods) == 1 else lambda b, h, i, j: mods[0](b, h, i, j) & mods[1](b, h, i, j)


def _adding(bias: Tensor) -> Mod:
    return lambda score, b, h, i, j: score + bias[b, h, i, j]
