"""What the stages of an attention work on: a call, as it was handed over and as it is prepared;
blocks, tiles and grids; and the stage of each aspect.

The stage of an aspect is written apart from the definition that judges (`numerics`), as whoever
writes attention would write it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from attnspec.core.keywords import KeywordArguments, load_parts
from attnspec.problems.problem import Array

Answer = Array | tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HandedOver(KeywordArguments[Array]):
    """The arguments of a call of attention, untouched: query (B,H,T,D), key, value."""

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCall(KeywordArguments[Array]):
    """A call prepared for the stages: arrays in the dtype of the computation, mask and bias
    (B,H,T,S).

    Past keys and values are in key and value, which have H heads once they are grouped.  visible
    (B,H,T,S): what a query may attend to, by all rules.  start: the place of the first query, for
    all batch entries or as (B,1,1,1).
    """

    query: Array
    key: Array
    value: Array
    visible: Array
    start: Array | int = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The lengths B, H, T and S of the logits."""
        B, H, T, _ = self.query.shape
        return B, H, T, self.key.shape[2]


def wide_dtype(io: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the computation for inputs of this dtype."""
    return np.dtype(np.float64) if io == np.float64 else np.dtype(np.float32)


Replaced: TypeAlias = Mapping[str, Callable[..., Any]]
"""The stages that a mechanism replaces, by the names of `Stages`."""

Mechanism: TypeAlias = Callable[[int], Replaced]
"""From the size of a block, tile or grid, the stages that go wrong."""


LengthT = TypeVar("LengthT", int, Array)
PartT = TypeVar("PartT")


def last_block(length: LengthT, size: int) -> LengthT:
    """Where the last block of an axis begins, whole or not."""
    return (length - 1) // size * size


def in_last(length: int, size: int) -> Array:
    """Which places along an axis, (S,), (T,) or (H,), lie in its last block, whole or not."""
    return np.arange(length) >= last_block(length, size)


def power_above(length: int) -> int:
    """The least power of two that is not below the length."""
    return 1 << (length - 1).bit_length()


def each_by(stage: str, change: Callable[..., Any]) -> Mechanism:
    """A mechanism that replaces one stage; `change` takes what the stage takes, then the size."""
    return lambda size: {stage: lambda *taken: change(*taken, size)}


def group_by(change: Callable[[Array, int, int], Array]) -> Mechanism:
    """A mechanism that groups keys and values, (B,Hkv,S,·) -> (B,H,S,·), given H and the size."""
    return lambda size: {**each_by("group_key", change)(size), **each_by("group_value", change)(size)}


Keep = Callable[[Array], Array]
"""What becomes of an intermediate result: stored in a narrower dtype, or kept as it is."""


def keep_as_is(array: Array) -> Array:
    """An array of any shape, as it is."""
    return array


Reach: TypeAlias = tuple[int | None, int | None]
"""How far a query sees to the left and to the right of its own place; None: without bound."""


class AspectStage:
    """The part that an aspect has in attention; by default, each method does nothing."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """The call with numbers in the place of codes; keys still have Hkv heads."""
        return work

    def bend(self, logits: Array, call: KeywordArguments[Array], keep: Keep = keep_as_is) -> Array:
        """Scaled dot products (B,H,T,S), bent; `keep` stores each intermediate result."""
        del call, keep
        return logits

    def bend_slope(self, bent: Array, call: KeywordArguments[Array]) -> Array | None:
        """The slope of the bend (B,H,T,S), formed of the bent logits; None without a bend."""
        del bent, call
        return None

    def visible_keys(self, call: KeywordArguments[Array], ahead: Array) -> Array | None:
        """Which keys, so far `ahead` of a query, it sees: (T,S) or (B,1,T,S); None: all."""
        del call, ahead
        return None

    def reach(self, call: KeywordArguments[Array]) -> Reach:
        """How far a query sees to the left and the right of its own place; None: without bound."""
        del call
        return None, None

    def own_keys(self, call: KeywordArguments[Array], keys: int) -> Array | None:
        """Which of so many keys a query sees anywhere: (B,1,1,S) or (B,1,T,S); None: all."""
        del call, keys
        return None

    def added_logits(self, call: KeywordArguments[Array], ahead: Array, dtype: np.dtype[Any]) -> Array | None:
        """What is added to the bent logits, broadcast to (B,H,T,S), in this dtype; None: nothing.

        ahead: how far each key lies ahead of the query's own place.
        """
        del call, ahead, dtype
        return None

    def extra_logit(self, call: KeywordArguments[Array]) -> Array | None:
        """The logit of one more key for each head, (H,), whose value is zero; None without."""
        del call
        return None

    def own_queries(self, call: KeywordArguments[Array], queries: int) -> Array | None:
        """Which of so many queries there are, (B,1,T,1); None: all."""
        del call, queries
        return None

    def weight_factors(self, call: KeywordArguments[Array], shape: tuple[int, int, int, int]) -> Array | None:
        """What multiplies weights before they meet values, (B,H,T,S), as `shape`; None: 1."""
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
    """The slope of the bend (B,H,T,S), formed of the bent logits; None if nothing bends them."""
    return next(iter(_stated(stage.bend_slope(bent, call) for stage in all_stages())), None)


def near_keys(call: KeywordArguments[Array], ahead: Array) -> Array:
    """The keys that every aspect leaves in sight, (T,S) or (B,1,T,S), by distance `ahead`."""
    parts = (stage.visible_keys(call, ahead) for stage in all_stages())
    return functools.reduce(np.logical_and, _stated(parts), np.ones(ahead.shape, bool))


def reach(call: KeywordArguments[Array]) -> Reach:
    """How far a query sees to the left and to the right of its own place; None: without bound."""
    left, right = zip(*(stage.reach(call) for stage in all_stages()), strict=True)
    return min(_stated(left), default=None), min(_stated(right), default=None)


def restore(work: PreparedCall) -> PreparedCall:
    """The call with numbers in the place of codes, by every aspect."""
    return functools.reduce(lambda prepared, stage: stage.restore(prepared), all_stages(), work)


def added_logits(call: KeywordArguments[Array], ahead: Array, dtype: np.dtype[Any]) -> Array | None:
    """What aspects add to the bent logits, (B,H,T,S) or broadcast, in this dtype, if anything."""
    parts = _stated(stage.added_logits(call, ahead, dtype) for stage in all_stages())
    return functools.reduce(np.add, parts) if parts else None


def extra_logit(call: KeywordArguments[Array]) -> Array | None:
    """The logit of one more key for each head, (H,), of the first aspect that has one, or None."""
    return next(iter(_stated(stage.extra_logit(call) for stage in all_stages())), None)


def weight_factors(call: KeywordArguments[Array], shape: tuple[int, int, int, int]) -> Array | None:
    """What aspects multiply the weights by, (B,H,T,S), as `shape`, before values; None: by 1."""
    parts = _stated(stage.weight_factors(call, shape) for stage in all_stages())
    return functools.reduce(np.multiply, parts) if parts else None


def own_queries(call: KeywordArguments[Array], queries: int) -> Array | None:
    """The queries that every aspect leaves, (B,1,T,1); None: all."""
    parts = _stated(stage.own_queries(call, queries) for stage in all_stages())
    return functools.reduce(np.logical_and, parts) if parts else None


def own_keys(call: KeywordArguments[Array], keys: int) -> Array:
    """The keys that a query sees, wherever it is, by all aspects: (S,), (B,1,1,S), (B,1,T,S)."""
    parts = _stated(stage.own_keys(call, keys) for stage in all_stages())
    return functools.reduce(np.logical_and, parts, np.ones(keys, bool))


def _stated(parts: Iterable[PartT | None]) -> list[PartT]:
    """The parts of the aspects that have something to say."""
    return [part for part in parts if part is not None]
