"""The keys and the queries that each batch entry has."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array, LayerProblem, Problem


def queries_within(problem: Problem | LayerProblem, rows: Array | None = None) -> Array:
    """(B,T) bool: the queries that each batch entry has; all of them where no lengths are given."""
    if problem.query_lengths is None:
        return np.ones((problem.sizes.B, problem.sizes.T if rows is None else len(rows)), dtype=bool)
    places = np.arange(problem.sizes.T) if rows is None else rows
    return np.asarray(places < problem.query_lengths[:, None])


def own_keys(problem: Problem) -> Array:
    """(B,1,1,S): the keys that each batch entry has, where lengths are given."""
    assert problem.key_lengths is not None
    return np.asarray(np.arange(problem.sizes.S) < problem.key_lengths[:, None, None, None])
