"""What the mechanisms of all kinds share: the stages they replace, and where the last block of an axis begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

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
