"""A precision class as plain numbers: the relative and absolute errors that it puts on each step, the softcap's too."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.operands import Operands
from attnspec.numerics.precision import USUAL_ULPS, Precision, is_half, unit
from attnspec.numerics.reference import Truth
from attnspec.problems.problem import Array

ARGUMENT_ROUNDINGS = 3  # of the exponential's argument: the subtraction, ·log2(e), and that constant


@dataclass(frozen=True, slots=True)
class Roundings:
    """Relative: accumulate, softmax, row_sum, output, lse (a returned log-sum-exp): one rounding each; prescale, scale,
    logits, biased_logits,
    weights and logsumexp (all roundings of that kind together; 0: no log-sum-exp is stored); argument and exp (of the
    exponential); cap_argument, tanh and cap (of a softcap: the quotient x / c, its tanh, the product with c),
    tanh_by_exp: whether the tanh's is relative to 1.
    Absolute, where something underflows: lost_product, lost_input, lost_logit, lost_weight, lost_output, lost_cap.
    What each storage can hold: largest_*, scale_range, and normal_weight, below which a weight is not rounded
    relatively.
    """

    accumulate: float
    prescale: float
    scale: float
    logits: float
    biased_logits: float
    softmax: float
    argument: float
    exp: float
    cap_argument: float
    tanh: float
    cap: float
    tanh_by_exp: bool
    weights: float
    row_sum: float
    logsumexp: float
    output: float
    lse: float
    lost_product: float
    lost_input: float
    lost_logit: float
    lost_weight: float
    lost_output: float
    lost_cap: float
    largest_logit: float
    largest_sum: float
    largest_output: float
    largest_prescaled: float
    scale_range: tuple[float, float]
    normal_weight: float
    block: int
    bias_in_accumulator: bool


@functools.cache
def roundings(precision: Precision) -> Roundings:
    """The numbers of a class."""
    softmax, stored = unit(precision.softmax).roundoff, precision.logit_roundings
    return Roundings(
        accumulate=unit(precision.accumulate).roundoff, softmax=softmax, row_sum=unit(precision.row_sum).roundoff,
        output=unit(precision.output).roundoff, lse=unit(returned_lse(precision.dtype)).roundoff,
        argument=ARGUMENT_ROUNDINGS * softmax,
        exp=exp_error(precision),
        prescale=_compound(precision.prescale, precision.prescale_roundings),
        scale=_compound(precision.scale, precision.scale_roundings), logits=_compound(precision.logits, stored),
        biased_logits=_compound(precision.logits, stored + 1 if stored else 0),
        weights=_compound(precision.weights, precision.weight_roundings),
        logsumexp=_compound(precision.logsumexp, precision.logsumexp_roundings),
        lost_product=_lost(precision, precision.accumulate), lost_input=_lost_input(precision),
        lost_logit=(stored + 1) * _lost(precision, precision.logits) if stored else 0.0,
        lost_weight=_lost(precision, precision.weights) + _lost_exp(precision),
        lost_output=_lost(precision, precision.output), **_cap(precision), **_ranges(precision))  # type: ignore[arg-type]  # by name


def returned_lse(dtype: DType) -> DType:
    """The dtype of a log-sum-exp that is returned beside an output of this one."""
    return DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32


def _cap(precision: Precision) -> dict[str, object]:
    """The steps of a softcap are taken in the accumulator's format, and each is stored where logits are."""
    step, stored = unit(precision.accumulate).roundoff, precision.logit_roundings
    kept = 1 + _compound(precision.logits, stored)
    return {
        "cap_argument": (1 + step) ** 2 * kept - 1,  # a reciprocal and a product cost more than one quotient
        "tanh": (1 + function_error(precision, "tanh_ulps", precision.accumulate)) * kept - 1,
        "cap": (1 + step) * kept - 1,
        "tanh_by_exp": precision.tanh_by_exp,
        "lost_cap": _lost(precision, precision.accumulate) + stored * _lost(precision, precision.logits)}


def _ranges(precision: Precision) -> dict[str, object]:
    scale, output = unit(precision.scale), unit(precision.output)
    through = (precision.accumulate, precision.logits, precision.softmax)
    returned = (precision.output, precision.weights, precision.softmax)
    return {
        "largest_logit": min(unit(dtype).largest for dtype in through), "largest_output": output.largest,
        "largest_sum": unit(precision.accumulate).largest, "largest_prescaled": unit(precision.prescale).largest,
        "scale_range": (scale.normal, scale.largest), "normal_weight": max(unit(dtype).normal for dtype in returned),
        "block": precision.block, "bias_in_accumulator": precision.bias_in_accumulator}


def exp_error(precision: Precision) -> float:
    """The relative error of exp: a bound beyond 3 ulp is of a polynomial whose result is rounded once more."""
    unrounded = precision.exp_ulps > USUAL_ULPS["exp_ulps"]
    return function_error(precision, "exp_ulps", precision.softmax, more=int(unrounded))


def function_error(precision: Precision, word: str, computed_in: DType, *, more: int = 0) -> float:
    """The error of an elementary function, with `more` ulps besides those that the word says; 1 ulp is two roundoffs.

    What is documented is documented of float32, or of float64 where it is computed in that. In a half format the
    function itself comes on top, to the ulps that are usual of any format: so the declared number means the same
    whichever format another word names.
    """
    declared = 2 * (getattr(precision, word) + more)
    if not is_half(computed_in):
        return float(declared * unit(computed_in).roundoff)
    return float(declared * unit(DType.FLOAT32).roundoff + 2 * USUAL_ULPS[word] * unit(computed_in).roundoff)


def _compound(dtype: DType, times: int) -> float:
    return float(np.expm1(times * np.log1p(unit(dtype).roundoff)))


def _lost(precision: Precision, dtype: DType) -> float:
    """The absolute error of one underflow. Float16 is converted by hardware that flushes nothing."""
    flushes = precision.flushes_subnormals and dtype is not DType.FLOAT16
    return unit(dtype).normal if flushes else unit(dtype).underflow


def _lost_input(precision: Precision) -> float:
    rounded = _lost(precision, precision.prescale) if precision.prescale_roundings else 0.0
    return max(rounded, unit(precision.accumulate).normal if precision.flushes_subnormals else 0.0)


def _lost_exp(precision: Precision) -> float:
    """A vectorised exp may give 0 for all that is below the normal range; a half one is rounded from float32."""
    of_softmax = unit(precision.softmax)
    return of_softmax.underflow if is_half(precision.softmax) else of_softmax.normal


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


TRUTH = 2.0**-53
"""The unit roundoff of the sum of a bias and what slopes add."""


def of_slopes(operands: Operands, truth: Truth, r: Roundings, error: Array | float = 0.0) -> Array:
    """(B,H,T,S): what slopes add to the error of each logit, given that without them.

    The product is formed and stored. Then there may be one addition more, with a bias two in any order: no partial sum
    is larger than all numbers together. A bias may seed the sum of products.
    """
    assert operands.bias is not None
    assert operands.reach is not None
    reach, bias = operands.reach, np.abs(operands.bias)
    formed = reach * ((1 + r.accumulate) * (1 + r.biased_logits) - 1)
    if r.bias_in_accumulator:
        formed = formed + operands.query.shape[-1] * r.accumulate * reach
    largest = np.abs(truth.logits) + bias + 2 * reach + error + formed
    return np.asarray(formed + 2 * (r.accumulate + r.biased_logits) * largest + TRUTH * (bias + reach))
