"""What a staged attention works on: what it was handed, and the same prepared for the stages; and what goes wrong with
blocks, tiles and grids of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from attnspec.core.keywords import KeywordArguments
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
