"""Computes attention whose weights are dropped, and how far rounding may take an honest one from
it.

Where it is known which weights are dropped, the output is, with factors F of 0 or 1/(1 - rate): O
= (F ∘ P) V. The derivation is in docs/dropout.md: the output is a mean under the same weights, of
F_ij v_j in the place of v_j.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType
from attnspec.numerics.bound import WeightError, assemble_allowance, in_domain, lost_weights, weight_error
from attnspec.numerics.expectation import EMPTY_FIELDS, Expectation
from attnspec.numerics.operands import Operands
from attnspec.numerics.precision import Precision, assumed_precision
from attnspec.numerics.reference import (
    ProblemBlock,
    Truth,
    compute_truth,
    cut_blocks,
    divisor,
    is_wider,
    join_blocks,
    multiply_wide,
    wide_float,
)
from attnspec.numerics.roundings import Roundings, roundings
from attnspec.problems.problem import Array, Problem

RESCALING_ROUNDINGS = 3
"""Roundings of 1 - rate, of its reciprocal, and of the product."""

ENTRIES_AT_ONCE = 2**20
"""Upper limit of the entries of F_ij v_j that are formed at once."""


def rescaling_error(precision: Precision) -> float:
    """The relative error of multiplying a weight by 1/(1 - rate), in the weights' format."""
    # the factor may be multiplied in before or after a weight is stored
    roundoff = max(DTYPES[precision.weights].roundoff, DTYPES[precision.softmax].roundoff)
    return float(np.expm1(RESCALING_ROUNDINGS * np.log1p(roundoff)))


def dropout_factors(is_kept: Array, rate: float) -> Array:
    """(B,H,T,S): the weights' factors, from which of them are kept (bool); at rate 1 zeros."""
    factor = 1 / (1 - rate) if rate < 1 else 0.0
    return np.where(is_kept, factor, 0.0)


def multiply_weights(truth: Truth, operands: Operands, factor: Array) -> Truth:
    """The truth of a block, with weights multiplied by a factor (B,H,T,S)."""
    output = (multiply_wide(truth.weights * factor, operands.value)
              / divisor(truth.total)[..., None])
    return replace(truth, output=output)


def expect_with_factors(problem: Problem, factor: Array, precision: Precision, *,
                        conventions: Mapping[str, str],
                        scale_width: int | None = None) -> Expectation:
    """The output (B,H,T,Dv) and its allowance, with weights multiplied by a factor (B,H,T,S).

    The other arguments are those of `expect`.
    """
    return _expect_blocks(problem, factor, precision, _bound_known_drop,
                          cut_blocks(problem, conventions, scale_width))


def expect_any_dropped(problem: Problem, rate: float, precision: Precision, *,
                       conventions: Mapping[str, str],
                       scale_width: int | None = None) -> Expectation:
    """The same, whichever weights are dropped: the truth drops none."""
    sizes = problem.sizes
    factor = np.broadcast_to(1 / (1 - rate), (sizes.B, sizes.H, sizes.T, sizes.S))
    return _expect_blocks(problem, factor, precision, _bound_any_drop,
                          cut_blocks(problem, conventions, scale_width))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A block, its truth in float64, the factors (B,H,T,S), and one class's weight errors."""

    operands: Operands
    truth: Truth
    factor: Array
    errors: WeightError

    @property
    def largest_factor(self) -> float:
        """The largest factor, at least 1."""
        return max(1.0, float(self.factor.max(initial=0.0)))


_Around = Callable[[_Part], tuple[Array, Array]]
"""Computes the size of the output and its drift, both (B,H,T,Dv)."""


def _expect_blocks(problem: Problem, factor: Array, precision: Precision, size_and_drift: _Around,
                   parts: Iterable[ProblemBlock]) -> Expectation:
    """The output (B,H,T,Dv) and its allowance, block by block."""
    sizes = problem.sizes
    classes = [precision]
    if not is_wider(precision.dtype):
        classes.append(assumed_precision(DType.FLOAT64))
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is left out by `claimed`
        block_fields = ((each.place, _block_fields(each.operands, factor[each.place], classes, size_and_drift))
                 for each in parts)
        all_fields: dict[str, Any] = dict(join_blocks((sizes.B, sizes.H, sizes.T), block_fields))
        return Expectation(**all_fields)


def _block_fields(
        operands: Operands, factor: Array, classes: Sequence[Precision],
        size_and_drift: _Around) -> Mapping[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…); factor (B,H,T,S)."""
    wide = multiply_weights(compute_truth(operands, wide_float(classes[0].dtype)), operands,
                            factor)
    truth = wide.narrow()
    parts = [_Part(operands, truth, factor, weight_error(operands, truth, roundings(each)))
             for each in classes]
    slack = functools.reduce(np.add, (_dropped_allowance(part, each, size_and_drift)
                                      for part, each in zip(parts, classes, strict=True)))
    r = roundings(classes[0])
    is_claimed = in_domain(operands, truth, r, parts[0].errors)
    is_claimed = is_claimed & _grown_values_fit(parts[0], r) & np.isfinite(slack).all(axis=-1)
    if r.stored_formats:  # what storing entries as others does beside dropout is not derived
        is_claimed = np.zeros_like(is_claimed)
    return {**EMPTY_FIELDS, "output": wide.output, "output_allowance": slack,
            "empty": operands.counts == 0, "claimed": is_claimed, "output_claimed": is_claimed}


def _dropped_allowance(part: _Part, precision: Precision, size_and_drift: _Around) -> Array:
    """(B,H,T,Dv): D of the values F_ij v_j, as without dropout, with the roundings of F."""
    r, operands, errors = roundings(precision), part.operands, part.errors
    size, drift = size_and_drift(part)
    reach = ((((part.truth.weights + errors.excess) * part.factor) @ operands.sizes.value)
             / errors.least[..., None])
    allowance = assemble_allowance(operands, size, errors, r, drift=drift, reach=reach)
    # what underflows before the factor grows by it
    allowance = (allowance
                 + (part.largest_factor - 1) * lost_weights(operands, size, r) * (1 + r.output))
    return np.asarray(allowance + rescaling_error(precision) * (reach + allowance))


def _bound_any_drop(part: _Part) -> tuple[Array, Array]:
    """(B,H,T,Dv), whichever weights are dropped.

    |F_ij v_j - o| is at most |v_j| / (1 - rate) and the largest output.
    """
    sizes, total = part.operands.sizes.value, divisor(part.truth.total)[..., None]
    # whichever weights are kept, the output is no larger than if all grew
    size = (part.truth.weights * part.factor) @ sizes / total
    drift = ((part.errors.excess * part.factor) @ sizes) / part.errors.least[..., None]
    return np.asarray(size), np.asarray(drift + part.errors.mass[..., None] * size)


def _bound_known_drop(part: _Part) -> tuple[Array, Array]:
    """(B,H,T,Dv), for known factors: the sum of excess·|F_ij v_j - o| over least."""
    output, value = part.truth.output, part.operands.value
    drift, step = np.empty_like(output), max(1, ENTRIES_AT_ONCE // max(1, part.factor.size))
    for start in range(0, value.shape[-1], step):
        some = slice(start, start + step)
        distance = np.abs(part.factor[..., None] * value[:, :, None, :, some]
                       - output[:, :, :, None, some])
        drift[..., some] = (part.errors.excess[..., None, :] @ distance)[..., 0, :]
    return np.abs(output), np.asarray(drift / part.errors.least[..., None])


def _grown_values_fit(part: _Part, r: Roundings) -> Array:
    """(B,H,1): whether no sum of values overflows, grown by the largest factor."""
    largest = (part.largest_factor
               * part.operands.held.value_sums.max(axis=-1, initial=0.0)[..., None])
    return np.asarray((largest <= r.largest_sum / 2) & (largest <= r.largest_output / 2))


@lru_cache(maxsize=1024)
def count_limits(trials: int, chance: float, false_alarm: float) -> tuple[int, int]:
    """The least and the greatest count of independent trials that raise no alarm.

    The probability of a lower count is at most half of the rate, and that of a higher one, too:
    both tails are summed, not approximated.
    """
    if chance in (0.0, 1.0):
        return (0, 0) if chance == 0 else (trials, trials)
    low = _least_count(_count_log_probabilities(trials, chance), false_alarm / 2)
    return low, trials - _least_count(_count_log_probabilities(trials, 1 - chance),
                                      false_alarm / 2)


def _count_log_probabilities(trials: int, chance: float) -> Array:
    """(trials + 1,): the logarithm of the probability of each count."""
    counts = np.arange(1, trials + 1, dtype=float)
    # by logarithms: for thousands of trials the probabilities underflow
    ratios = np.log(trials + 1 - counts) - np.log(counts) + math.log(chance) - math.log1p(-chance)
    return np.concatenate([[0.0], np.cumsum(ratios)]) + trials * math.log1p(-chance)


def _least_count(logarithms: Array, tail: float) -> int:
    """The least count up to which the probability is more than `tail`."""
    cumulative = np.logaddexp.accumulate(logarithms)
    return int(np.searchsorted(cumulative, math.log(tail), side="right"))
