"""The bias that slopes stand for, and how far rounding may take it. The derivation is in docs/numerics.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.numerics.visible import own_places
from attnspec.problems.problem import Array, Problem


def alibi(problem: Problem, conventions: Mapping[str, str], rows: Array | None,
          bias: Array | None) -> tuple[Array, Array]:
    """(B,H,T,S) each: -slope·|p - j|, with the bias where there is one, and the slope times the larger of p and j.

    What differs by a constant of the row is as good, and some count from the first key: slope·j. So a number as large
    as the second may be rounded on the way.
    """
    slopes = np.asarray(problem.alibi_slopes).astype(np.float64)[..., None, None]
    own, keys = own_places(problem, conventions, rows), np.arange(problem.sizes.S)
    n = problem.sizes
    shape = (n.B, n.H, n.T if rows is None else len(rows), n.S)
    added = np.broadcast_to(-slopes * np.abs(keys - own), shape)
    reach = np.broadcast_to(np.abs(slopes) * np.maximum(np.abs(own), keys), shape)
    return np.asarray(added if bias is None else added + bias), reach


TRUTH = 2.0**-53
"""The unit roundoff of the sum of both biases above."""


def slope_error(error: Array | float, bias: Array, reach: Array, logits: Array, *, accumulate: float,
                stored: float) -> Array:
    """(B,H,T,S), as what it is given: what slopes add to the error of each logit, given that without them, the sum of
    all that is added, how large a product may be on the way, and the size of the logits.

    The product is formed and stored. Then there may be one addition more, with a bias two in any order: no partial sum
    is larger than all numbers together.
    """
    formed = reach * ((1 + accumulate) * (1 + stored) - 1)
    largest = logits + np.abs(bias) + 2 * reach + error + formed
    added = 2 * (accumulate + stored) * largest
    return np.asarray(formed + added + TRUTH * (np.abs(bias) + reach))
