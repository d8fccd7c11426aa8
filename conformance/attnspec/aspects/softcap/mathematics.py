"""The mathematics of the softcap: the formula, how far rounding may take it, and its derivative.

A capped logit is c·tanh(x / c). Its slope is at most 1, so a cap damps the error of what comes in.
What it adds itself are the roundings of the quotient, of the tanh and of the product with c. The
derivation is in docs/numerics.md, that of the derivative in docs/gradients.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.numerics.operands import LogitBend, Mathematics
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import Roundings, compound, function_error, lost_to_underflow
from attnspec.problems.problem import Array, Problem

FLAT = 300.0  # beyond so many caps the slope is below 1e-260
LARGEST_ARGUMENT = 700.0  # exp of more would overflow float64


@dataclass(frozen=True, slots=True)
class SoftcapRoundings:
    """The relative errors of the three steps: quotient x / c, tanh, product with c.

    is_tanh_of_one: whether the tanh's error is relative to 1, not to itself.  lost: what one step
    loses if it underflows.
    """

    quotient: float
    tanh: float
    product: float
    is_tanh_of_one: bool
    lost: float


@functools.cache
def softcap_roundings(precision: Precision) -> SoftcapRoundings:
    """The roundings of a precision class: steps as it accumulates, results as it stores logits."""
    step, stored = DTYPES[precision.accumulate].roundoff, precision.logit_roundings
    kept = 1 + compound(DTYPES[precision.logits].roundoff, stored)
    return SoftcapRoundings(
        quotient=(1 + step) ** 2 * kept - 1,  # a reciprocal and a product cost more than one quotient
        tanh=(1 + function_error(precision, "tanh_ulps", precision.accumulate)) * kept - 1,
        product=(1 + step) * kept - 1,
        is_tanh_of_one=precision.tanh_by_exp,
        lost=lost_to_underflow(precision, precision.accumulate)
        + stored * lost_to_underflow(precision, precision.logits))


@dataclass(frozen=True, slots=True)
class Softcap:
    """The bend of one cap, c·tanh(x / c)."""

    cap: float

    @property
    def growth(self) -> float:
        """How much larger the quotient x / c is than x; at least 1."""
        return max(1.0, 1 / self.cap)

    def bend(self, products: Array, real: type[np.floating]) -> Array:
        """The bent logits (B,H,T,S) of scaled dot products, in the arithmetic of `real`."""
        return np.asarray(np.tanh(products / real(self.cap)) * real(self.cap))

    def derivative(self, products: Array) -> Array:
        """The slope 1/cosh²(x / c) at the scaled dot products (B,H,T,S), in their arithmetic."""
        size = np.minimum(np.abs(products) / products.dtype.type(self.cap), FLAT)
        return np.asarray(1 / np.cosh(size) ** 2)

    def steepest(self, size: Array, error: Array | float) -> Array:
        """The largest slope (B,H,T,S) between a number of this size and one off by `error`."""
        u = np.minimum(size / self.cap, FLAT)
        fallen = np.exp(-2 * u)
        steeper = np.exp(np.minimum(2 * np.asarray(error) / self.cap, LARGEST_ARGUMENT))
        return np.asarray(np.minimum(1.0, 4 * fallen / (1 + fallen) ** 2 * steeper))

    def bent_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """The error of capped logits (B,H,T,S).

        error, size: of the scaled dot products.  bent: the sizes of the capped ones.
        """
        own = softcap_roundings(r.precision)
        error = error + own.quotient * (size + error)
        error = self.steepest(size, error) * error
        error += own.tanh * (self.cap if own.is_tanh_of_one else np.minimum(bent + error, self.cap))
        error += own.product * (bent + error)
        return np.asarray(error + (2 * self.cap + 1) * own.lost)  # quotient and tanh are multiplied by c afterwards

    def own_variance(self, size: Array, bent: Array, steepness: Array, r: Roundings) -> Array:
        """The squared roundings (B,H,T,S) of the cap itself: quotient, tanh, product with c."""
        own = softcap_roundings(r.precision)
        tanh = own.tanh * (self.cap if own.is_tanh_of_one else bent)
        spread = np.square(steepness * own.quotient * size) + np.square(tanh) + np.square(own.product * bent)
        return np.asarray(spread + ((2 * self.cap + 1) * own.lost) ** 2)

    def shared_error(self, r: Roundings) -> float:
        """The error that all keys share: the cap's reciprocal may be rounded once."""
        return r.accumulate

    def derivative_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """The error of the slope (B,H,T,S), formed as 1 - tanh².

        Where the cap saturates that cancels, so that the error is absolute.
        """
        off = self.bent_error(error, size, bent, r) / self.cap  # of the tanh, as the forward pass has it
        tanh = np.minimum(bent / self.cap, 1.0)
        return np.asarray(off * (2 * tanh + off) + (3 * r.softmax + 2 * r.logits) * (1 + off))


class SoftcapMathematics(Mathematics):
    """A softcap bends the scaled dot products."""

    def bend_of(self, problem: Problem) -> LogitBend | None:
        """The bend of the problem's softcap; None without one."""
        return None if problem.softcap is None else Softcap(problem.softcap)


MATHEMATICS = SoftcapMathematics()
