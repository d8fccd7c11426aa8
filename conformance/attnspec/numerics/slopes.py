"""The bias that slopes stand for, and how far rounding may take it. The derivation is in docs/numerics.md."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array, Problem


def alibi(problem: Problem, own: Array, bias: Array | None) -> tuple[Array, Array]:
    """(B,H,T,S) each, of queries that stand at their own places (T,1) or (B,1,T,1): -slope·|p - j|, with the bias
    where there is one, and the slope times the larger of p and j.

    What differs by a constant of the row is as good, and some count from the first key: slope·j. So a number as large
    as the second may be rounded on the way.
    """
    slopes = np.asarray(problem.alibi_slopes).astype(np.float64)[..., None, None]
    keys, n = np.arange(problem.sizes.S), problem.sizes
    shape = (n.B, n.H, own.shape[-2], n.S)
    added = np.broadcast_to(-slopes * np.abs(keys - own), shape)
    reach = np.broadcast_to(np.abs(slopes) * np.maximum(np.abs(own), keys), shape)
    return np.asarray(added if bias is None else added + bias), reach
