"""Transforms of what a rotary embedding is put: places, features, and a batch taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.core.rotary import FARTHEST
from attnspec.problems.problem import Array
from attnspec.problems.rotary import RotaryProblem
from attnspec.vocabulary.hints import DrawnSeed
from attnspec.vocabulary.scene import Axis, NoClaim, Posed
from attnspec.vocabulary.transforms.axes import permutation

Rotary = Posed[RotaryProblem]
Along = Literal["batch", "heads", "tokens"]
_AXIS: Mapping[Along, Axis] = {"batch": "B", "heads": "H", "tokens": "T"}


def shift_places(posed: Rotary, *, by: int) -> Rotary:
    """Move every token by so many places."""
    places = posed.one.positions + np.int32(by)
    if places.max() > FARTHEST:
        raise NoClaim("a place would lie beyond the farthest that is put")
    return posed.but(positions=places)


def one_at_a_time(posed: Rotary, *, along: Along) -> Rotary:
    """Take x apart: one call for each batch entry, head or token, with its own positions; the answers joined again."""
    axis = _AXIS[along]
    count = posed.one.sizes.by_axis[axis]
    return replace(posed, parts=tuple(_take_entries(posed.one, axis, np.array([at])) for at in range(count)), join=axis)


def reorder(posed: Rotary, *, along: Along, by: DrawnSeed) -> Rotary:
    """Put batch entries, heads or tokens in another order; the answer is read back in the old one."""
    axis = _AXIS[along]
    order = permutation(by, posed.one.sizes.by_axis[axis])
    return replace(posed, parts=(_take_entries(posed.one, axis, order),)).reading(axis, np.argsort(order))


def _take_entries(problem: RotaryProblem, axis: Axis, index: Array) -> RotaryProblem:
    """The entries at these places along an axis of x (B,H,T,D), and of positions (B,T) where they have it."""
    x = np.ascontiguousarray(np.take(problem.x, index, axis="BHTD".index(axis)))
    if axis == "H":
        return problem.but(x=x)
    return problem.but(x=x, positions=np.ascontiguousarray(np.take(problem.positions, index, axis="BT".index(axis))))


TRANSFORMS = (shift_places, one_at_a_time, reorder)
"""The words of this file."""
