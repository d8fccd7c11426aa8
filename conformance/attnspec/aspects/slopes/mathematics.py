"""The bias that slopes stand for. How far rounding may take it is told by the largest number that
it may be made from; the derivation is in docs/numerics.md.
"""

from __future__ import annotations

import numpy as np

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


def alibi(problem: Problem, own: Array) -> tuple[Array, Array]:
    """(B,H,T,S) each, for places p, (T,1) or (B,1,T,1): -slope·|p - j|, and slope·max(|p|, j).

    A constant of the row makes no difference, and some count from the first key: slope·j. So a
    number as large as the second may be rounded on the way.
    """
    slopes = np.asarray(problem.alibi_slopes).astype(np.float64)[..., None, None]
    keys, n = np.arange(problem.sizes.S), problem.sizes
    shape = (n.B, n.H, own.shape[-2], n.S)
    added = np.broadcast_to(-slopes * np.abs(keys - own), shape)
    return added, np.broadcast_to(np.abs(slopes) * np.maximum(np.abs(own), keys), shape)


class SlopesMathematics(Mathematics):
    """Slopes add to the logits, by the distance from the query's own place."""

    def added_logits(self, problem: Problem, own: Array) -> tuple[Array, Array] | None:
        """The bias that slopes stand for, and its reach, (B,H,T,S) each; None without slopes."""
        return None if problem.alibi_slopes is None else alibi(problem, own)


MATHEMATICS = SlopesMathematics()
