"""`flex_attention` as a server uses it: document masks for lengths, scores for sinks and slopes, and its log-sum-exp.

Everything that its caller writes is a function of the indices: a length is looked up by the batch entry, a slope by the
head. A sink is one more key of zeros whose score is the sink and whose value is zero.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention

from .flex import Mod, Window, hiding, scoring, untraced

Tensor = Any  # torch is not seen by mypy


def served(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
           causal: bool = False, scale: float | None = None, window: Window | None = None,
           softcap: float | None = None, key_lengths: Tensor = None, query_lengths: Tensor = None,
           sinks: Tensor = None, alibi_slopes: Tensor = None, return_lse: bool = False) -> Tensor:
    """Run at once, with the switch for debugging. Without gradients, since on CPU it has no backward pass."""
    S = key.shape[2]
    hides = _all_of(hiding(mask, window, causal=causal), _ending(key_lengths, query_lengths))
    scores = _sloped(scoring(bias, softcap), alibi_slopes)
    if sinks is not None:
        key, value = (torch.nn.functional.pad(tensor, (0, 0, 0, 1)) for tensor in (key, value))
        hides, scores = _but_the_sink(hides, S), _with_sink(scores, sinks, S)
    with untraced(), torch.no_grad():
        return _attend(query, key, value, hides, scores, scale=scale, return_lse=return_lse)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask_mod: Mod | None, score_mod: Mod | None, *,
            scale: float | None, return_lse: bool) -> Tensor:
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    block_mask = create_block_mask(mask_mod, *shape, device=query.device) if mask_mod else None
    asked = AuxRequest(lse=True) if return_lse else None
    answer = flex_attention(query, key, value, score_mod=score_mod, block_mask=block_mask, scale=scale,
                            enable_gqa=key.shape[1] != query.shape[1], return_aux=asked)
    return (answer[0], answer[1].lse) if return_lse else answer


def _all_of(*mods: Mod | None) -> Mod | None:
    given = [mod for mod in mods if mod is not None]
    return reduce(and_masks, given) if given else None


def _ending(key_lengths: Tensor, query_lengths: Tensor) -> Mod | None:
    """What hides the keys, and the queries, beyond the numbers of their batch entry."""
    if key_lengths is None and query_lengths is None:
        return None

    def within(b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        own = j >= 0 if key_lengths is None else j < key_lengths[b]
        return own if query_lengths is None else own & (i < query_lengths[b])
    return within


def _sloped(score_mod: Mod | None, slopes: Tensor) -> Mod | None:
    """ALiBi for a query at place i; slopes are (H,) or (B,H)."""
    if slopes is None:
        return score_mod

    def sloped(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        score = score if score_mod is None else score_mod(score, b, h, i, j)
        return score - (slopes[h] if slopes.dim() == 1 else slopes[b, h]) * (i - j).abs()
    return sloped


def _but_the_sink(mask_mod: Mod | None, last: int) -> Mod | None:
    return None if mask_mod is None else lambda b, h, i, j: (j == last) | mask_mod(b, h, i, j.clamp(max=last - 1))


def _with_sink(score_mod: Mod | None, sinks: Tensor, last: int) -> Mod:
    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        other = score if score_mod is None else score_mod(score, b, h, i, j.clamp(max=last - 1))
        return torch.where(j == last, sinks[h].to(other.dtype), other)
    return score
