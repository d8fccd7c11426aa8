"""Sums whose order depends on more than the row: right within rounding, but the bits change with the batch, with chunks
or with padding. Each claims that they do not.
"""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Attend, around, attention
from attnspec.faults.work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

Parts = Callable[[PreparedCall], Sequence[int]]
"""Where the keys are cut: the ends of the parts whose sums are added up, the last of them S."""

Shift = Callable[[Array], Array]
"""What is taken off logits (B,H,T,S) before the exponential, (B,H,T,1)."""

CLAIMS = ("batch_invariant",)
_TILE = 16
_BLOG = "https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/"


def whole(work: PreparedCall) -> Sequence[int]:
    """One part, from the first key to the last."""
    return (work.shape[3],)


def own_maximum(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest of the row."""
    return logits.max(axis=-1, keepdims=True, initial=-np.inf)


def in_parts(parts: Parts, *, shift: Shift = own_maximum) -> Callable[[], Attend]:
    """A maker of attentions that add up as `summed` does."""
    return around(lambda call: summed(call, parts, shift))


def summed(call: HandedOver, parts: Parts, shift: Shift = own_maximum) -> Answer:
    """The answer to a call, keys added up one by one, part by part. What a part adds to the output is rounded to the
    dtype of the inputs, as it is where parts are computed apart and merged.
    """
    return attention(call, _stages(parts, shift, call.query.dtype))


def _stages(parts: Parts, shift: Shift, io: np.dtype[Any]) -> sound.Stages:
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S), and sinks behind them, -> weights."""
        top = shift(logits)
        grown = np.exp(logits - np.where(np.isneginf(top), 0, top))
        spans = list(_spans(parts(work)))
        behind = range(work.shape[3], logits.shape[-1])
        total = sum((_sum(grown, span) for span in (*spans, behind)), np.zeros_like(top))
        return grown / np.where(total == 0, 1, total)

    def mix(weights: Array, work: PreparedCall) -> Array:
        """Weighted sums of the values, (B,H,T,Dv)."""
        summed = (_mixed(weights, work, span).astype(io).astype(weights.dtype) for span in _spans(parts(work)))
        return sum(summed, np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype))

    return sound.Stages(logits=_logits, softmax=softmax, mix=mix)


def _spans(ends: Sequence[int]) -> Iterator[range]:
    """The keys of each part."""
    return (range(*span) for span in pairwise((0, *ends)))


def _logits(work: PreparedCall, factor: float) -> Array:
    """Dot products times the scale, (B,H,T,S), feature by feature: a matrix product adds up in an order that hangs on
    all sizes.
    """
    dots = np.zeros(work.shape, work.query.dtype)
    for at in range(work.query.shape[-1]):
        dots = dots + work.query[..., at, None] * work.key[:, :, None, :, at]
    return dots * dots.dtype.type(factor)


def _sum(grown: Array, keys: range) -> Array:
    """Of (B,H,T,S) the sum over these keys, one after the other, (B,H,T,1)."""
    total = np.zeros_like(grown[..., :1])
    for at in keys:
        total = total + grown[..., at, None]
    return total


def _mixed(weights: Array, work: PreparedCall, keys: range) -> Array:
    """What these keys add to the output, (B,H,T,Dv), one after the other. What is hidden adds nothing, not even NaN."""
    total = np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype)
    for at in keys:
        added = weights[..., at, None] * work.value[:, :, None, at]
        total = total + np.where(work.visible[..., at, None], added, 0)
    return total


def _evenly(count: Callable[[PreparedCall], int]) -> Parts:
    """So many parts, as equal as may be."""
    def parts(work: PreparedCall) -> Sequence[int]:
        """The ends."""
        S, many = work.shape[3], count(work)
        return [-(-S * (at + 1) // many) for at in range(many)]
    return parts


def _few_entries(work: PreparedCall) -> int:
    """The fewer batch entries there are, the more workers share the keys."""
    return max(1, 4 // max(work.shape[0], 1))


def _one_query(work: PreparedCall) -> int:
    return 4 if work.shape[2] == 1 else 1


def _many_queries(work: PreparedCall) -> int:
    return 1 if work.shape[2] < 3 else 2


def _of_tile(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest of sixteen rows, which share a tile."""
    own = own_maximum(logits)
    tiles = [np.broadcast_to(own[:, :, at:at + _TILE].max(axis=2, keepdims=True), own[:, :, at:at + _TILE].shape)
             for at in range(0, own.shape[2], _TILE)]
    return np.concatenate(tiles, axis=2) if tiles else own


def _of_batch(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest of the same row in all batch entries."""
    own = own_maximum(logits)
    return np.broadcast_to(own.max(axis=0, keepdims=True, initial=-np.inf), own.shape)


def _of_first(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest of the row or of the same row of the first batch entry."""
    own = own_maximum(logits)
    return np.maximum(own, own[:1])


def fault(name: str, story: str, reach: str, make: Callable[[], Attend], stage: str = Stage.BLOCKS) -> Fault:
    """One that claims what it breaks."""
    return Fault(f"invariance_{name}", stage, story, reach, make, link=_BLOG, claims=CLAIMS)


FAULTS = (
    fault("parts_by_batch", "The fewer batch entries there are, the more workers share the keys of a row.",
           "one or two batch entries", in_parts(_evenly(_few_entries))),
    fault("parts_for_one_query", "The path for a single query (T = 1) divides the keys among four workers.",
           "one query", in_parts(_evenly(_one_query))),
    fault("parts_for_queries", "The path for three queries or more divides the keys among two workers.",
           "three queries and more", in_parts(_evenly(_many_queries))),
    fault("parts_by_keys", "The keys are cut in the middle of the array, masked ones counted.", "masked keys, chunks",
           in_parts(_evenly(lambda _: 2))),
    fault("maximum_of_first", "What is taken off a row is no less than the maximum of the first batch entry.",
           "several batch entries", in_parts(whole, shift=_of_first), Stage.SOFTMAX),
    fault("maximum_of_tile", "Sixteen queries of a tile share one maximum.", "several queries",
           in_parts(whole, shift=_of_tile), Stage.SOFTMAX),
    fault("maximum_of_batch", "A row's maximum is taken over all batch entries.", "several batch entries",
           in_parts(whole, shift=_of_batch), Stage.SOFTMAX),
)
