"""Transforms that reorder a problem or take it apart; answers are read back in the old order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.problems.problem import Array
from attnspec.vocabulary.posed import Axis, NoClaim
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms.arrays import Attention, permutation, taken

_ALL = ("query", "key", "value", "mask", "bias")
_AXES: Mapping[str, tuple[int, Axis]] = {"batch": (0, "B"), "heads": (1, "H"), "queries": (2, "T")}


def permute_keys(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the keys with their values, and the columns of mask and bias with them."""
    problem = posed.one
    order = permutation(by, problem.sizes.S)
    moved = posed.but(key=taken(problem.key, order, 2), value=taken(problem.value, order, 2),
                      mask=taken(problem.mask, order, 3), bias=taken(problem.bias, order, 3))
    return moved.reading("S", np.argsort(order))


def permute_queries(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the queries, and the rows of mask and bias with them; answers are read back in the old order."""
    problem = posed.one
    order = permutation(by, problem.sizes.T)
    moved = posed.but(query=taken(problem.query, order, 2), mask=taken(problem.mask, order, 2),
                      bias=taken(problem.bias, order, 2))
    return moved.reading("T", np.argsort(order))


def permute_batch(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the batch; answers are read back in the old order."""
    return _permuted(posed, "batch", permutation(by, posed.one.sizes.B))


def permute_heads(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the heads of all arrays alike (no grouped heads); answers are read back in the old order."""
    if posed.one.sizes.Hkv < posed.one.sizes.H:
        raise NoClaim("heads are grouped")
    return _permuted(posed, "heads", permutation(by, posed.one.sizes.H))


def _permuted(posed: Attention, along: str, order: Array) -> Attention:
    axis, name = _AXES[along]
    moved = {array: taken(getattr(posed.one, array), order, axis) for array in _ALL}
    return posed.but(**moved).reading(name, np.argsort(order))


def split(posed: Attention, *, along: Literal["batch", "heads", "queries"]) -> Attention:
    """Take the problem apart along an axis: one call a piece, the answers joined again."""
    axis, join = _AXES[along]
    problem = posed.one
    if along == "heads" and problem.sizes.Hkv < problem.sizes.H:
        raise NoClaim("heads are grouped")
    names = ("query", "mask", "bias") if along == "queries" else _ALL
    parts = tuple(problem.but(**{name: taken(getattr(problem, name), np.array([i]), axis) for name in names})
                  for i in range(problem.query.shape[axis]))
    return replace(posed, parts=parts, join=join)
