"""Attention whose weights are dropped: the output by definition, where it is known which ones, and how far from it
rounding may take an honest one. With the factors F, 0 or 1/(1 - rate):

    O = (F ∘ P) V

The derivation is in docs/dropout.md: the output is a mean under the same weights, of F_ij v_j in the place of v_j.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.blocks import blocks, joined
from attnspec.numerics.bound import WeightError, allowance_of, in_domain, lost_weights, weight_error
from attnspec.numerics.expectation import NOTHING, Expectation
from attnspec.numerics.gradient_truth import times
from attnspec.numerics.operands import Operands
from attnspec.numerics.precision import Precision, assumed, unit
from attnspec.numerics.reference import Truth, attend, is_wider, wide_float
from attnspec.numerics.roundings import Roundings, roundings
from attnspec.problems.problem import Array, Problem

ROUNDINGS = 3
"""Of 1 - rate, of its reciprocal, and of the product."""

AT_ONCE = 2**20
"""Entries of F_ij v_j that are formed at once."""


def rescaling(precision: Precision) -> float:
    """Relative: what multiplying a weight by 1/(1 - rate) adds, in the format in which weights are kept."""
    roundoff = max(unit(precision.weights).roundoff, unit(precision.softmax).roundoff)
    return float(np.expm1(ROUNDINGS * np.log1p(roundoff)))


def factors(kept: Array, rate: float) -> Array:
    """(B,H,T,S): what each weight is multiplied by, of which it is known whether it was kept (bool); at rate 1 zeros."""
    return np.where(kept, 1 / (1 - rate) if rate < 1 else 0.0, 0.0)


def with_factors(truth: Truth, operands: Operands, factor: Array) -> Truth:
    """The truth of a block whose weights are multiplied by a factor (B,H,T,S) before they meet the values."""
    total = np.where(truth.total == 0, 1, truth.total)[..., None]
    return replace(truth, output=times(truth.weights * factor, operands.value) / total)


def expect_dropped(problem: Problem, factor: Array, precision: Precision, *, conventions: Mapping[str, str],
                   scale_width: int | None = None) -> Expectation:
    """The output (B,H,T,Dv) of a problem whose weights are multiplied by a factor (B,H,T,S), and its allowance.

    The other arguments are those of `expect`.
    """
    return _expected(problem, factor, precision, conventions, scale_width, _of_these)


def expect_any_dropped(problem: Problem, rate: float, precision: Precision, *, conventions: Mapping[str, str],
                       scale_width: int | None = None) -> Expectation:
    """The same, whichever weights are dropped: the truth is that of none, and the allowance holds for all."""
    factor = np.broadcast_to(1 / (1 - rate), _shape(problem))
    return _expected(problem, factor, precision, conventions, scale_width, _of_any)


def _shape(problem: Problem) -> tuple[int, int, int, int]:
    sizes = problem.sizes
    return sizes.B, sizes.H, sizes.T, sizes.S


Around = Callable[[Operands, Truth, Array, WeightError], tuple[Array, Array]]
"""The size of the output and its drift, both (B,H,T,Dv), given the factors (B,H,T,S)."""


def _expected(problem: Problem, factor: Array, precision: Precision, conventions: Mapping[str, str],
              scale_width: int | None, around: Around) -> Expectation:
    """The output (B,H,T,Dv) block by block."""
    classes = (precision, *(() if is_wider(precision.dtype) else (assumed(DType.FLOAT64),)))
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is left out by `claimed`
        found = ((block.place, _found(block.operands, problem.dtype, factor[block.place], classes, around))
                 for block in blocks(problem, conventions, scale_width))
        every: dict[str, Any] = dict(joined(_shape(problem)[:3], found))
        return Expectation(**every)


def _found(operands: Operands, dtype: DType, factor: Array, classes: tuple[Precision, ...],
           around: Around) -> Mapping[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…)."""
    wide = with_factors(attend(operands, wide_float(dtype)), operands, factor)
    truth = wide.narrow()
    erring = [(each, roundings(each)) for each in classes]
    errors = [weight_error(operands, truth, r) for _, r in erring]
    slack = functools.reduce(np.add, (_allowance(operands, truth, factor, each, error, around)
                                      for (each, _), error in zip(erring, errors, strict=True)))
    claimed = in_domain(operands, truth, erring[0][1], errors[0]) & _fits(operands, factor, erring[0][1])
    claimed = claimed & np.isfinite(slack).all(axis=-1)
    return {**NOTHING, "output": wide.output, "output_allowance": slack, "empty": operands.counts == 0,
            "claimed": claimed, "output_claimed": claimed}


def _allowance(operands: Operands, truth: Truth, factor: Array, precision: Precision, errors: WeightError,
               around: Around) -> Array:
    """(B,H,T,Dv): D, as without dropout, of the values F_ij v_j; and the roundings of F itself."""
    r, (size, drift) = roundings(precision), around(operands, truth, factor, errors)
    reach = (((truth.weights + errors.excess) * factor) @ operands.sizes.value) / errors.least[..., None]
    allowance = allowance_of(operands, size, errors, r, drift=drift, reach=reach)
    grown = max(1.0, float(factor.max(initial=0.0)))
    allowance = allowance + (grown - 1) * lost_weights(operands, size, r) * (1 + r.output)
    return np.asarray(allowance + rescaling(precision) * (reach + allowance))


def _of_any(operands: Operands, truth: Truth, factor: Array, errors: WeightError) -> tuple[Array, Array]:
    """Of whichever weights are dropped: |F_ij v_j - o| is at most |v_j| / (1 - rate) and the largest output."""
    sizes, total = operands.sizes.value, np.where(truth.total == 0, 1, truth.total)[..., None]
    size = (truth.weights * factor) @ sizes / total
    drift = ((errors.excess * factor) @ sizes) / errors.least[..., None] + errors.mass[..., None] * size
    return np.asarray(size), np.asarray(drift)


def _of_these(operands: Operands, truth: Truth, factor: Array, errors: WeightError) -> tuple[Array, Array]:
    """Of those that are known: the sum of excess·|F_ij v_j - o| over least, so many columns at a time as memory likes.
    """
    drift, value = np.empty_like(truth.output), operands.value
    step = max(1, AT_ONCE // max(1, factor.size))
    for start in range(0, value.shape[-1], step):
        some = slice(start, start + step)
        apart = np.abs(factor[..., None] * value[:, :, None, :, some] - truth.output[:, :, :, None, some])
        drift[..., some] = (errors.excess[..., None, :] @ apart)[..., 0, :]
    return np.abs(truth.output), np.asarray(drift / errors.least[..., None])


def _fits(operands: Operands, factor: Array, r: Roundings) -> Array:
    """(B,H,1): whether no sum of values can overflow that have grown by the largest factor."""
    grown = max(1.0, float(factor.max(initial=0.0)))
    largest = grown * operands.held.value_sums.max(axis=-1, initial=0.0)[..., None]
    return np.asarray((largest <= r.largest_sum / 2) & (largest <= r.largest_output / 2))
