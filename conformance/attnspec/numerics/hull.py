"""The largest and the smallest value that a query attends to, column by column: no mean of them lies beyond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.numerics.aspect import attending
from attnspec.numerics.blocks import blocks, joined
from attnspec.numerics.operands import Operands
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import roundings
from attnspec.numerics.stored import stored_arrays, stored_blocks, with_rescaling
from attnspec.problems.problem import Array, Problem

GATHERED_FROM = 2**13
"""Entries of a head's values from which they are gathered row by row: below it, the loop costs more than the work."""

AT_ONCE = 2**18
"""Entries that are compared at once, so that they stay in the cache."""


def attended_range(value: Array, visible: Array | None, rows: Array) -> tuple[Array, Array]:
    """(·,Dv) each: the largest and smallest attended value (B,H,S,Dv) of each of the rows True in `rows` (B,H,T).

    visible: (B,H,T,S), None where every key is. A row that sees none has -inf and inf.
    """
    batch, head, query = np.nonzero(rows)
    if visible is None:
        return value.max(axis=-2)[batch, head], value.min(axis=-2)[batch, head]
    top = np.full((len(batch), value.shape[-1]), -np.inf, value.dtype)
    bottom = -top
    by_one = value.shape[-2] * value.shape[-1] >= GATHERED_FROM
    step = 1 if by_one else max(1, AT_ONCE // max(1, value.shape[-2] * value.shape[-1]))
    for start in range(0, len(batch), step):
        some = slice(start, start + step)
        b, h, i = batch[some], head[some], query[some]
        if by_one:
            _of_row(value[b[0], h[0]], visible[b[0], h[0], i[0]], top[start], bottom[start])
        else:
            _of_rows(value[b, h], visible[b, h, i], top[some], bottom[some])
    return top, bottom


def _of_row(value: Array, visible: Array, top: Array, bottom: Array) -> None:
    """Of one row: value (S,Dv), visible (S,) -> top and bottom (Dv,), filled in."""
    attended = value[visible]  # gathered, they stay in the cache
    attended.max(axis=0, initial=-np.inf, out=top)
    attended.min(axis=0, initial=np.inf, out=bottom)


def _of_rows(value: Array, visible: Array, top: Array, bottom: Array) -> None:
    """Of many rows: value (·,S,Dv), visible (·,S) -> top and bottom (·,Dv), filled in."""
    seen = visible[..., None]
    np.where(seen, value, -np.inf).max(axis=-2, initial=-np.inf, out=top)
    np.where(seen, value, np.inf).min(axis=-2, initial=np.inf, out=bottom)


def hull_of(problem: Problem, conventions: Mapping[str, str], precision: Precision | None = None,
            ) -> tuple[Array, Array]:
    """The least and the greatest visible value of each row and feature, (B,H,T,Dv) in float64; 0 where none is visible.
    Where a class quantises values, of those that may be read back.

    Of no use on rows that see what is not finite.
    """
    every = blocks(problem, conventions)
    if precision is not None and (r := roundings(precision)).stored:
        every = stored_blocks(attending(problem), with_rescaling(r, stored_arrays(problem, r)), conventions)
    found = ((block.place, _hull(block.operands)) for block in every)
    both = joined((problem.sizes.B, problem.sizes.H, problem.sizes.T), found)
    return both["low"], both["high"]


def _hull(operands: Operands) -> dict[str, Array]:
    """The least (`low`) and the greatest (`high`) visible value of a block, (B,H,T,Dv) each; 0 where there is none."""
    shape = (*operands.query.shape[:3], operands.value.shape[-1])
    some = operands.counts > 0
    both = {"low": np.zeros(shape), "high": np.zeros(shape)}
    if operands.stored is None:
        both["high"][some], both["low"][some] = attended_range(operands.value, operands.visible, some)
        return both
    moved = operands.stored.value
    both["high"][some], _ = attended_range(operands.value + moved, operands.visible, some)
    _, both["low"][some] = attended_range(operands.value - moved, operands.visible, some)
    return both
