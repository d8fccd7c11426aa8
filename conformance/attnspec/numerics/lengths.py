"""The queries that each batch entry has: which rows there are is no matter of one aspect. Its keys are in `aspects`."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array, LayerProblem, Problem


def queries_within(problem: Problem | LayerProblem, rows: Array | None = None) -> Array:
    """(B,T) bool: the queries that each batch entry has; all of them where no lengths are given."""
    if problem.query_lengths is None:
        return np.ones((problem.sizes.B, problem.sizes.T if rows is None else len(rows)), dtype=bool)
    places = np.arange(problem.sizes.T) if rows is None else rows
    return np.asarray(places < problem.query_lengths[:, None])
