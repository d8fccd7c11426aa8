"""The mathematics of the number of keys: what lies behind it is hidden.

The core knows from where places count, and which rows there are.
"""

from __future__ import annotations

import numpy as np

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class LengthsMathematics(Mathematics):
    """A query sees the keys that its batch entry has."""

    def own_keys(self, problem: Problem, rows: Array | None) -> Array | None:  # noqa: ARG002  (the hook's signature)
        """The keys that each batch entry has, (B,1,1,S); None without their numbers."""
        if problem.key_lengths is None:
            return None
        return np.asarray(np.arange(problem.sizes.S) < problem.key_lengths[:, None, None, None])


MATHEMATICS = LengthsMathematics()
