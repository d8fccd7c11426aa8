"""`torch.nn.attention.flex_attention`: masks and biases are functions of the indices, which the caller writes.

Run as it stands, not compiled, it computes all logits. The functions here are those of its documentation: a mask and a
bias are looked up in a captured tensor, causal is `q_idx >= kv_idx`, a window two comparisons, a soft cap a tanh.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

Tensor = Any  # torch is not seen by mypy
Mod = Callable[..., Tensor]
Window = tuple[int | None, int | None]


def flex(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
         scale: float | None = None, window: Window | None = None, softcap: float | None = None) -> Tensor:
    """Eager. Without gradients, since on CPU it has no backward pass."""
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    hides = [_looked_up(mask.expand(shape))] if mask is not None else []
    hides += [_causal] if causal else []
    hides += [_within(*window)] if window else []
    with torch.no_grad():
        return flex_attention(query, key, value, score_mod=_scoring(bias, softcap, shape),
                              block_mask=create_block_mask(_all_of(hides), *shape, device="cpu") if hides else None,
                              scale=scale, enable_gqa=key.shape[1] != query.shape[1])


def _looked_up(mask: Tensor) -> Mod:
    return lambda b, h, i, j: mask[b, h, i, j]


def _causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def _within(left: int | None, right: int | None) -> Mod:
    """From the query's own place so many keys to the left and to the right; None: all."""
    def near(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        back = j >= i - left if left is not None else j >= 0
        return back & (j <= i + right) if right is not None else back
    return near


def _all_of(mods: list[Mod]) -> Mod:
    return reduce(and_masks, mods)


def _scoring(bias: Tensor, softcap: float | None, shape: tuple[int, ...]) -> Mod | None:
    """A cap first, then the bias."""
    if bias is None and softcap is None:
        return None
    added = None if bias is None else bias.expand(shape)

    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        capped = score if softcap is None else softcap * torch.tanh(score / softcap)
        return capped if added is None else capped + added[b, h, i, j]
    return score
