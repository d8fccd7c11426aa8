"""The mathematics of segments: they hide the keys of other segments and do nothing else."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class SegmentsMathematics(Mathematics):
    """A query sees the keys of its own segment."""

    def own_keys(self, problem: Problem, rows: Array | None) -> Array | None:
        """The keys of each query's own segment, (B,1,T,S); None without segments."""
        if problem.query_segments is None or problem.key_segments is None:
            return None
        queries = problem.query_segments if rows is None else problem.query_segments[:, rows]
        return np.asarray(queries[:, None, :, None] == problem.key_segments[:, None, None])


MATHEMATICS = SegmentsMathematics()
