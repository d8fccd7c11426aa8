"""What a staged attention works on, and the stage that an aspect has in it: how it computes what the aspect is about.

What it was handed, and the same prepared for the stages; and what goes wrong with blocks, tiles and grids of any kind.
The stage of an aspect is written apart from the definition that judges (`numerics`), as whoever writes attention would
write it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from attnspec.core.keywords import KeywordArguments, load_parts
from attnspec.problems.problem import Array

Answer = Array | tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HandedOver(KeywordArguments[Array]):
    """What `attend` was handed, untouched."""

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCall(KeywordArguments[Array]):
    """A call prepared for the stages: arrays in the dtype of the computation, mask and bias at full shape (B,H,T,S).

    After `group` key and value have H heads; `visible` (B,H,T,S) is what a query may attend to, all rules together.
    Past keys and values are in key and value. start: the place of the first query, of all batch entries or (B,1,1,1).
    """

    query: Array
    key: Array
    value: Array
    visible: Array
    start: Array | int = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B,H,T,S)."""
        B, H, T, _ = self.query.shape
        return B, H, T, self.key.shape[2]


def wide_dtype(io: np.dtype[Any]) -> np.dtype[Any]:
    """What is computed in for inputs of this dtype."""
    return np.dtype(np.float64) if io == np.float64 else np.dtype(np.float32)


Replaced: TypeAlias = Mapping[str, Callable[..., Any]]
"""The stages that a mechanism replaces, by the names of `Stages`."""

Mechanism: TypeAlias = Callable[[int], Replaced]
"""From a block's, a tile's or a grid's size to what goes wrong with it, wherever it is put."""

Change: TypeAlias = Callable[[Array, PreparedCall], Array]
"""Of logits, weights or the output, whose axes are (B,H,T,·), with the whole call beside it."""


LengthT = TypeVar("LengthT", int, Array)


def last_block(length: LengthT, size: int) -> LengthT:
    """Where the last block of an axis begins, whole or not."""
    return (length - 1) // size * size


def in_last(length: int, size: int) -> Array:
    """(S,), or (T,) or (H,), by the length: whether a position lies in the last block of its axis, whole or not."""
    return np.arange(length) >= last_block(length, size)


def power_above(length: int) -> int:
    """The least power of two that is not below the length."""
    return 1 << (length - 1).bit_length()


def each_by(stage: str, change: Callable[[int], Change]) -> Mechanism:
    """A mechanism that replaces one stage of arrays and work, by what `change` makes of the size."""
    return lambda size: {stage: change(size)}


Keep = Callable[[Array], Array]
"""What becomes of an intermediate result: stored in a narrower dtype, or kept as it is."""


def keep_as_is(array: Array) -> Array:
    """An array of any shape, not rounded."""
    return array


Reach: TypeAlias = tuple[int | None, int | None]
"""How far a query sees to the left and to the right of its own place; None: without bound."""


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

    def reach(self, call: KeywordArguments[Array]) -> Reach:
        """How many keys before a query's own place it sees, and how many behind it; None: all there are."""
        del call
        return None, None

    def own_keys(self, call: KeywordArguments[Array], keys: int) -> Array | None:
        """Which of so many keys a query sees wherever it stands, (B,1,1,S) or (B,1,T,S); None: all."""
        del call, keys
        return None

    def added_logits(self, call: KeywordArguments[Array], ahead: Array, dtype: np.dtype[Any]) -> Array | None:
        """What is added to the bent logits, (B,H,T,S) or broadcast to it, of keys that lie so far `ahead` of the
        query's own place, in the arithmetic of `dtype`; None: nothing.
        """
        del call, ahead, dtype
        return None

    def extra_logit(self, call: KeywordArguments[Array]) -> Array | None:
        """(H,): for each head, the logit of one more key that every query sees, and whose value is zero; None: none."""
        del call
        return None

    def own_queries(self, call: KeywordArguments[Array], queries: int) -> Array | None:
        """Which of so many queries there are, (B,1,T,1); None: all."""
        del call, queries
        return None

    def weight_factors(self, call: KeywordArguments[Array], shape: tuple[int, int, int, int]) -> Array | None:
        """What the weights are multiplied by before they meet the values, (B,H,T,S), which is the shape; None: by 1."""
        del call, shape
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


def reach(call: KeywordArguments[Array]) -> Reach:
    """How far a query sees before and behind its own place, by the aspects that bound it; None: without bound."""
    left, right = ([side for side in sides if side is not None]
                   for sides in zip(*(stage.reach(call) for stage in all_stages()), strict=True))
    return min(left, default=None), min(right, default=None)


def restore(work: PreparedCall) -> PreparedCall:
    """The call with the numbers that attend in the place of what stands for them, by every aspect."""
    return functools.reduce(lambda prepared, stage: stage.restore(prepared), all_stages(), work)


def added_logits(call: KeywordArguments[Array], ahead: Array, dtype: np.dtype[Any]) -> Array | None:
    """What the aspects add to the bent logits, (B,H,T,S) or broadcast to it, in the arithmetic of `dtype`; None where
    none adds.
    """
    parts = [part for stage in all_stages() if (part := stage.added_logits(call, ahead, dtype)) is not None]
    return functools.reduce(np.add, parts) if parts else None


def extra_logit(call: KeywordArguments[Array]) -> Array | None:
    """(H,): the logit of one more key for each head, of the first aspect that has one; None without."""
    return next((extra for stage in all_stages() if (extra := stage.extra_logit(call)) is not None), None)


def weight_factors(call: KeywordArguments[Array], shape: tuple[int, int, int, int]) -> Array | None:
    """What the aspects multiply weights by before they meet the values, (B,H,T,S), which is the shape; None: by 1."""
    parts = [part for stage in all_stages() if (part := stage.weight_factors(call, shape)) is not None]
    return functools.reduce(np.multiply, parts) if parts else None


def own_queries(call: KeywordArguments[Array], queries: int) -> Array | None:
    """The queries that every aspect leaves, (B,1,T,1); None where there are all of them."""
    parts = [part for stage in all_stages() if (part := stage.own_queries(call, queries)) is not None]
    return functools.reduce(np.logical_and, parts) if parts else None


def own_keys(call: KeywordArguments[Array], keys: int) -> Array:
    """The keys that every aspect leaves in sight wherever a query stands: (S,), (B,1,1,S) or (B,1,T,S)."""
    parts = (stage.own_keys(call, keys) for stage in all_stages())
    return functools.reduce(np.logical_and, (part for part in parts if part is not None), np.ones(keys, bool))
