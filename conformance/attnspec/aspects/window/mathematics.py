"""The window in numbers: which keys are near enough. It hides keys and does nothing else, so no bound knows it."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class WindowMathematics(Mathematics):
    """A window bounds what is seen, whether or not there is a mask or a causal flag."""

    def visible_keys(self, problem: Problem, ahead: Array) -> Array | None:
        """(T,S) or (B,1,T,S): the keys that lie no further behind, and no further `ahead`, than the window reaches."""
        if problem.window is None:
            return None
        left, right = problem.window
        return np.asarray((ahead >= (-np.inf if left is None else -left))
                          & (ahead <= (np.inf if right is None else right)))


MATHEMATICS = WindowMathematics()
