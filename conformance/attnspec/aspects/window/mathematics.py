"""The mathematics of the window: it hides keys and does nothing else, so no bound knows it."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class WindowMathematics(Mathematics):
    """A window bounds what is seen, with or without a mask or a causal flag."""

    def visible_keys(self, problem: Problem, ahead: Array) -> Array | None:
        """The keys in the window, (T,S) or (B,1,T,S); None without a window."""
        if problem.window is None:
            return None
        left, right = problem.window
        return np.asarray((ahead >= (-np.inf if left is None else -left))
                          & (ahead <= (np.inf if right is None else right)))


MATHEMATICS = WindowMathematics()
