"""What a softcap does to an error of the logits: c·tanh(x / c) lets through what its slope lets, and adds its own.

Write u = x / c. The slope of c·tanh(x / c) is 1 - tanh(u)² = 1 / cosh(u)², at most 1, and its logarithm changes by no
more than 2 for a step of 1 in u. So an error e of x becomes at most e·min(1, exp(2e / c) / cosh(u)²).
"""

from __future__ import annotations

import numpy as np

from attnspec.numerics.reference import Operands, Truth
from attnspec.numerics.roundings import Roundings
from attnspec.problems.problem import Array


def scaled(operands: Operands, truth: Truth) -> Array:
    """(B,H,T,S): the size of the scaled dot products, before any softcap."""
    return np.asarray(abs(float(operands.scale)) * np.abs(truth.dots))


def slope(size: Array, error: Array | float, softcap: float) -> Array:
    """(B,H,T,S): by how much, at most, an error of scaled dot products of this size is multiplied."""
    u = np.minimum(size / softcap, 300.0)  # beyond, the slope is below 1e-260
    fallen = np.exp(-2 * u)
    steepest = np.exp(np.minimum(2 * np.asarray(error) / softcap, 700.0))
    return np.asarray(np.minimum(1.0, 4 * fallen / (1 + fallen) ** 2 * steepest))


def capped_error(error: Array, size: Array, capped: Array, softcap: float, r: Roundings) -> Array:
    """(B,H,T,S): the error behind the cap, given that of the scaled dot products, their size and the capped size."""
    error = error + r.cap_argument * (size + error)
    error = slope(size, error, softcap) * error
    error += r.tanh * (softcap if r.tanh_by_exp else np.minimum(capped + error, softcap))
    error += r.cap * (capped + error)
    return np.asarray(error + (2 * softcap + 1) * r.lost_cap)


def own_spread(size: Array, capped: Array, steepness: Array, softcap: float, r: Roundings) -> Array:
    """(B,H,T,S): the squared roundings of the cap itself: its argument, the tanh, the product with c."""
    tanh = r.tanh * (softcap if r.tanh_by_exp else capped)
    spread = np.square(steepness * r.cap_argument * size) + np.square(tanh) + np.square(r.cap * capped)
    return np.asarray(spread + ((2 * softcap + 1) * r.lost_cap) ** 2)


def room(softcap: float | None) -> float:
    """By how much a logit may grow on its way through the cap: x / c is larger than x where c is below 1."""
    return 1.0 if softcap is None else max(1.0, 1 / softcap)
