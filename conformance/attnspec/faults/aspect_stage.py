"""The stage that an aspect has in the attention which faults change: how it computes what the aspect is about.

It is written apart from the definition that judges (`numerics`), as whoever writes attention would write it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from attnspec.core.keywords import KeywordArguments, load_parts
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Keep = Callable[[Array], Array]
"""What becomes of an intermediate result: stored in a narrower dtype, or kept as it is."""


def keep_as_is(array: Array) -> Array:
    """An array of any shape, not rounded."""
    return array


class AspectStage:
    """What an aspect does in the course of attention. Each method does nothing unless the aspect says otherwise."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """The call with the numbers that attend in the place of what stands for them; keys have Hkv heads still."""
        return work

    def bend(self, logits: Array, call: KeywordArguments[Array], keep: Keep = keep_as_is) -> Array:
        """Scaled dot products (B,H,T,S), bent; `keep` stores each intermediate result."""
        del call, keep
        return logits

    def bend_slope(self, bent: Array, call: KeywordArguments[Array]) -> Array | None:
        """The slope of the bend (B,H,T,S), formed of what came out of it; None where the call bends nothing."""
        del bent, call
        return None

    def visible_keys(self, call: KeywordArguments[Array], ahead: Array) -> Array | None:
        """Which keys a query sees, (T,S) or (B,1,T,S), of keys that lie so far `ahead` of its own place; None: all."""
        del call, ahead
        return None

    def own_keys(self, call: KeywordArguments[Array], keys: int) -> Array | None:
        """Which of so many keys a query sees wherever it stands, (B,1,1,S) or (B,1,T,S); None: all."""
        del call, keys
        return None


@functools.cache
def all_stages() -> tuple[AspectStage, ...]:
    """The stage of every aspect that has one, in the order in which they run."""
    return tuple(part.STAGE for part in load_parts("faults") if hasattr(part, "STAGE"))


def bend_logits(logits: Array, call: KeywordArguments[Array], keep: Keep = keep_as_is) -> Array:
    """Scaled dot products (B,H,T,S), bent by every aspect that bends them."""
    for stage in all_stages():
        logits = stage.bend(logits, call, keep)
    return logits


def bend_slope(bent: Array, call: KeywordArguments[Array]) -> Array | None:
    """The slope of the bend (B,H,T,S), formed of what came out of it; None where the call bends nothing."""
    slopes = (stage.bend_slope(bent, call) for stage in all_stages())
    return next((slope for slope in slopes if slope is not None), None)


def near_keys(call: KeywordArguments[Array], ahead: Array) -> Array:
    """The keys that every aspect leaves in sight, (T,S) or (B,1,T,S), of keys that lie so far `ahead` of the query."""
    parts = (stage.visible_keys(call, ahead) for stage in all_stages())
    return functools.reduce(np.logical_and, (part for part in parts if part is not None), np.ones(ahead.shape, bool))


def restore(work: PreparedCall) -> PreparedCall:
    """The call with the numbers that attend in the place of what stands for them, by every aspect."""
    return functools.reduce(lambda prepared, stage: stage.restore(prepared), all_stages(), work)

def own_keys(call: KeywordArguments[Array], keys: int) -> Array:
    """The keys that every aspect leaves in sight wherever a query stands: (S,), (B,1,1,S) or (B,1,T,S)."""
    parts = (stage.own_keys(call, keys) for stage in all_stages())
    return functools.reduce(np.logical_and, (part for part in parts if part is not None), np.ones(keys, bool))
