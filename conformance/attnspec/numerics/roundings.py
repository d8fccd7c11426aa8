"""A precision class as plain numbers: the relative and absolute errors that it puts on each step."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.precision import USUAL_ULPS, Precision, is_half, unit
from attnspec.numerics.stored_format import StoredFormat

ARGUMENT_ROUNDINGS = 3  # of the exponential's argument: the subtraction, ·log2(e), and that constant


@dataclass(frozen=True, slots=True)
class InputErrors:
    """What a subject may do to the entries of query, key and value before they meet, beyond its own roundings.

    of_logits, of_values: relative, of each product of a query and a key entry, and of each value.  logit_growth,
    value_growth: by how much the entries that it is handed may be larger than those that attend.  query_offset,
    key_offset, value_offset: by how much, beyond an entry's own size, the numbers may be larger that are added up to
    make it: what is taken off of a code, and the code.
    """

    of_logits: float = 0.0
    of_values: float = 0.0
    logit_growth: float = 1.0
    value_growth: float = 1.0
    query_offset: float = 0.0
    key_offset: float = 0.0
    value_offset: float = 0.0


EXACT_INPUTS = InputErrors()


@dataclass(frozen=True, slots=True)
class Roundings:
    """Relative: accumulate, softmax, row_sum, output, lse (a returned log-sum-exp): one rounding each; prescale, scale,
    logits, biased_logits,
    weights and logsumexp (all roundings of that kind together; 0: no log-sum-exp is stored); argument and exp (of the
    exponential).
    Absolute, where something underflows: lost_product, lost_input, lost_logit, lost_weight, lost_output.
    What each storage can hold: largest_*, scale_range, and normal_weight, below which a weight is not rounded
    relatively.
    inputs: what may happen to the entries before they meet.
    stored: by name, the formats of the arrays, and of the weights, that are quantised inside.
    precision: the class itself, from which an aspect works out the numbers of its own steps.
    """

    precision: Precision = field(compare=False)  # grades that round alike are alike
    accumulate: float
    prescale: float
    scale: float
    logits: float
    biased_logits: float
    softmax: float
    argument: float
    exp: float
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
    largest_logit: float
    largest_sum: float
    largest_output: float
    largest_prescaled: float
    scale_range: tuple[float, float]
    normal_weight: float
    block: int
    bias_in_accumulator: bool
    inputs: InputErrors = EXACT_INPUTS
    stored: Mapping[str, StoredFormat] = field(default_factory=dict, hash=False)


@functools.cache
def roundings(precision: Precision) -> Roundings:
    """The numbers of a class."""
    softmax, stored = unit(precision.softmax).roundoff, precision.logit_roundings
    return Roundings(
        precision=precision,
        accumulate=unit(precision.accumulate).roundoff, softmax=softmax, row_sum=unit(precision.row_sum).roundoff,
        output=unit(precision.output).roundoff, lse=unit(returned_lse(precision.dtype)).roundoff,
        argument=ARGUMENT_ROUNDINGS * softmax,
        exp=exp_error(precision),
        prescale=compound(precision.prescale, precision.prescale_roundings),
        scale=compound(precision.scale, precision.scale_roundings), logits=compound(precision.logits, stored),
        biased_logits=compound(precision.logits, stored + 1 if stored else 0),
        weights=compound(precision.weights, precision.weight_roundings),
        logsumexp=compound(precision.logsumexp, precision.logsumexp_roundings),
        lost_product=lost_to_underflow(precision, precision.accumulate), lost_input=_lost_input(precision),
        lost_logit=(stored + 1) * lost_to_underflow(precision, precision.logits) if stored else 0.0,
        lost_weight=lost_to_underflow(precision, precision.weights) + _lost_exp(precision),
        lost_output=lost_to_underflow(precision, precision.output), stored=precision.stored, **_ranges(precision))  # type: ignore[arg-type]  # by name


def returned_lse(dtype: DType) -> DType:
    """The dtype of a log-sum-exp that is returned beside an output of this one."""
    return DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32


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


def compound(dtype: DType, times: int) -> float:
    """The relative error of so many roundings to a format, one after the other."""
    return float(np.expm1(times * np.log1p(unit(dtype).roundoff)))


def lost_to_underflow(precision: Precision, dtype: DType) -> float:
    """The absolute error of one underflow. Float16 is converted by hardware that flushes nothing."""
    flushes = precision.flushes_subnormals and dtype is not DType.FLOAT16
    return unit(dtype).normal if flushes else unit(dtype).underflow


def _lost_input(precision: Precision) -> float:
    rounded = lost_to_underflow(precision, precision.prescale) if precision.prescale_roundings else 0.0
    return max(rounded, unit(precision.accumulate).normal if precision.flushes_subnormals else 0.0)


def _lost_exp(precision: Precision) -> float:
    """A vectorised exp may give 0 for all that is below the normal range; a half one is rounded from float32."""
    of_softmax = unit(precision.softmax)
    return of_softmax.underflow if is_half(precision.softmax) else of_softmax.normal
