"""`torch.nn.attention.flex_attention`: masks and biases are functions of the indices, which the caller writes.

The functions here are those of its documentation: a mask and a bias are looked up in a captured tensor, causal is
`q_idx >= kv_idx`, a window two comparisons, a soft cap a tanh. Called without torch.compile it computes all logits, but
is traced for every new shape, a third of a second each; the switch that it offers for debugging a function leaves the
tracing out and runs the same operations at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import reduce
from typing import Any, Callable, Iterator, Optional, Tuple

import torch
from torch.nn.attention import flex_attention as flex_attention_module
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

Tensor = Any  # torch is not seen by mypy
Mod = Callable[..., Tensor]
Window = Tuple[Optional[int], Optional[int]]


def flex(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
         scale: float | None = None, window: Window | None = None, softcap: float | None = None) -> Tensor:
    """Run at once, with the switch for debugging. Without gradients, since on CPU it has no backward pass."""
    with untraced():
        return _attend(query, key, value, hiding(mask, window, causal=causal), scoring(bias, softcap),
                       scale=scale)


def traced(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
           causal: bool = False, scale: float | None = None, window: Window | None = None,
           softcap: float | None = None) -> Tensor:
    """As it is when nothing is set."""
    return _attend(query, key, value, hiding(mask, window, causal=causal), scoring(bias, softcap),
                   scale=scale)


@contextmanager
def untraced() -> Iterator[None]:
    """With the switch for debugging."""
    flex_attention_module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        yield
    finally:
        flex_attention_module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False


def _attend(query: Tensor, key: Tensor, value: Tensor, mask_mod: Mod | None, score_mod: Mod | None, *,
            scale: float | None) -> Tensor:
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    with torch.no_grad():
        block_mask = create_block_mask(mask_mod, *shape, device=query.device) if mask_mod else None
        return flex_attention(query, key, value, score_mod=score_mod, block_mask=block_mask, scale=scale,
                              enable_gqa=key.shape[1] != query.shape[1])


def hiding(mask: Tensor, window: Window | None, *, causal: bool) -> Mod | None:
    """What hides keys, as a function of the indices; a mask is (B,H,T,S), or has axes of length one."""
    mods = [_looked_up(mask)] if mask is not None else []
    mods += [_causal] if causal else []
    mods += [_within(*window)] if window else []
    return reduce(and_masks, mods) if mods else None


def _looked_up(mask: Tensor) -> Mod:
    """An axis of length one serves all indices along it."""
    B, H, T, S = mask.shape
    return lambda b, h, i, j: mask[b * (B > 1), h * (H > 1), i * (T > 1), j * (S > 1)]


def _causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def _within(left: int | None, right: int | None) -> Mod:
    """From the query's own place so many keys to the left and to the right; None: all."""
    def near(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        back = j >= i - left if left is not None else j >= 0
        return back & (j <= i + right) if right is not None else back
    return near


def scoring(bias: Tensor, softcap: float | None) -> Mod | None:
    """What changes logits: a cap first, then the bias, which is (B,H,T,S), or has axes of length one."""
    if bias is None and softcap is None:
        return None
    added = _looked_up(bias) if bias is not None else None

    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        capped = score if softcap is None else softcap * torch.tanh(score / softcap)
        return capped if added is None else capped + added(b, h, i, j)
    return score
