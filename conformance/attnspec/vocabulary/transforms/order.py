"""Transforms that reorder a problem or take it apart; answers are read back in the old order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.problems.problem import Array
from attnspec.vocabulary.posed import Axis, NoClaim
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms.arrays import Attention, entries_along, permutation

_AXES: Mapping[str, Axis] = {"batch": "B", "heads": "H", "queries": "T"}


def permute_keys(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the keys with their values, and the columns of mask and bias with them."""
    problem = posed.one
    order = permutation(by, problem.sizes.S)
    return posed.but(**entries_along(problem, "S", order)).reading("S", np.argsort(order))


def permute_queries(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the queries, and the rows of mask and bias with them; answers are read back in the old order."""
    problem = posed.one
    order = permutation(by, problem.sizes.T)
    return posed.but(**entries_along(problem, "T", order)).reading("T", np.argsort(order))


def permute_batch(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the batch; answers are read back in the old order."""
    return _permuted(posed, "B", permutation(by, posed.one.sizes.B))


def permute_heads(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the heads of all arrays alike (no grouped heads); answers are read back in the old order."""
    if posed.one.sizes.Hkv < posed.one.sizes.H:
        raise NoClaim("heads are grouped")
    return _permuted(posed, "H", permutation(by, posed.one.sizes.H))


def _permuted(posed: Attention, axis: Axis, order: Array) -> Attention:
    return posed.but(**entries_along(posed.one, axis, order)).reading(axis, np.argsort(order))


def split(posed: Attention, *, along: Literal["batch", "heads", "queries"]) -> Attention:
    """Take the problem apart along an axis: one call a piece, the answers joined again."""
    axis = _AXES[along]
    problem = posed.one
    if along == "heads" and problem.sizes.Hkv < problem.sizes.H:
        raise NoClaim("heads are grouped")
    parts = tuple(problem.but(**entries_along(problem, axis, np.array([i])))
                  for i in range(getattr(problem.sizes, axis)))
    return replace(posed, parts=parts, join=axis)
