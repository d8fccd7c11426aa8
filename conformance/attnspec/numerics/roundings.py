"""Turns a precision class into numbers: the errors that it puts on each step, forward and
backward.

What a backward pass rounds in addition is declared apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.errors import ManifestError, quote_value
from attnspec.core.nouns import DType
from attnspec.numerics.precision import USUAL_ULPS, Precision, StoredForm

# of the exponential's argument: the subtraction, ·log2(e), and that constant
ARGUMENT_ROUNDINGS = 3


@dataclass(frozen=True, slots=True)
class InputErrors:
    """What a subject may do to the entries before they meet, beyond its own roundings.

    of_logits, of_values: relative, of each product of a query and a key entry, and of each value.
    logit_growth, value_growth: by how much the entries that it is handed may be larger than those
    that attend.  query_offset, key_offset, value_offset: how far the numbers added up to make
    an entry (its code, its zero point) may exceed the entry's own size.
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
    """A precision class as plain numbers.

    Relative: accumulate, softmax, row_sum, output, lse (a returned log-sum-exp): one rounding
    each; prescale, scale, logits, biased_logits, weights and logsumexp (all roundings of that kind
    together; 0: no log-sum-exp is stored); argument and exp (of the exponential). Absolute, where
    something underflows: lost_product, lost_input, lost_logit, lost_weight, lost_output. What each
    storage can hold: largest_*, scale_range, and normal_weight, below which a weight is not
    rounded relatively. inputs: what may happen to the entries before they meet. stored_formats: by
    name, the formats of arrays, and weights, that are stored in another one. precision: the class
    itself, from which an aspect computes the numbers of its own steps.
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
    stored_formats: Mapping[str, StoredForm] = field(default_factory=dict, hash=False)


@functools.cache
def roundings(precision: Precision) -> Roundings:
    """The numbers of a class."""
    accumulate = DTYPES[precision.accumulate]
    softmax = DTYPES[precision.softmax]
    output = DTYPES[precision.output]
    logits, weights = DTYPES[precision.logits], DTYPES[precision.weights]
    prescale, scale = DTYPES[precision.prescale], DTYPES[precision.scale]
    logit_roundings = precision.logit_roundings
    return Roundings(
        precision=precision,
        accumulate=accumulate.roundoff, softmax=softmax.roundoff,
        row_sum=DTYPES[precision.row_sum].roundoff,
        output=output.roundoff, lse=DTYPES[DTYPES[precision.dtype].wide].roundoff,
        argument=ARGUMENT_ROUNDINGS * softmax.roundoff,
        exp=exp_error(precision),
        prescale=compound(prescale.roundoff, precision.prescale_roundings),
        scale=compound(scale.roundoff, precision.scale_roundings),
        logits=compound(logits.roundoff, logit_roundings),
        # the sum with a bias is stored once more, where logits are stored at all
        biased_logits=compound(logits.roundoff, logit_roundings + 1 if logit_roundings else 0),
        weights=compound(weights.roundoff, precision.weight_roundings),
        logsumexp=compound(DTYPES[precision.logsumexp].roundoff, precision.logsumexp_roundings),
        lost_product=lost_to_underflow(precision, precision.accumulate),
        lost_input=_lost_input(precision),
        lost_logit=bool(logit_roundings) * (logit_roundings + 1) * lost_to_underflow(precision, precision.logits),
        lost_weight=lost_to_underflow(precision, precision.weights) + _lost_exp(precision),
        lost_output=lost_to_underflow(precision, precision.output),
        largest_logit=min(accumulate.largest, logits.largest, softmax.largest),
        largest_sum=accumulate.largest, largest_output=output.largest,
        largest_prescaled=prescale.largest,
        scale_range=(scale.normal, scale.largest),
        normal_weight=max(output.normal, weights.normal, softmax.normal),
        block=precision.block, bias_in_accumulator=precision.bias_in_accumulator,
        stored_formats=precision.stored_formats)


def exp_error(precision: Precision) -> float:
    """The relative error of exp; beyond 3 ulp it is a polynomial's, and rounded once more."""
    # who is looser than usual has a polynomial of its own, and stores what comes of it
    has_polynomial = precision.exp_ulps > USUAL_ULPS["exp_ulps"]
    return function_error(precision, "exp_ulps", precision.softmax, more=int(has_polynomial))


def function_error(precision: Precision, word: str, computed_in: DType, *, more: int = 0) -> float:
    """The relative error of an elementary function, with `more` ulps than the word says; 1 ulp is
    2u.

    Documented ulps count in float32, or in float64 where it computes there. A half format adds its
    own usual ulps, so that a declared number means the same everywhere.
    """
    ulps = 2 * (getattr(precision, word) + more)
    if not DTYPES[computed_in].is_half:
        return float(ulps * DTYPES[computed_in].roundoff)
    return float(ulps * DTYPES[DType.FLOAT32].roundoff
                 + 2 * USUAL_ULPS[word] * DTYPES[computed_in].roundoff)


def compound(roundoff: float, times: int) -> float:
    """The relative error of so many roundings, one after the other."""
    return float(np.expm1(times * np.log1p(roundoff)))


def lost_to_underflow(precision: Precision, dtype: DType) -> float:
    """The absolute error of one underflow. Hardware that converts float16 flushes nothing."""
    flushes = precision.flushes_subnormals and DTYPES[dtype].may_be_flushed
    return DTYPES[dtype].normal if flushes else DTYPES[dtype].underflow


def _lost_input(precision: Precision) -> float:
    loss = 0.0
    # a scaled query in float16 may change by 3e-8, however small it is
    if precision.prescale_roundings:
        loss = lost_to_underflow(precision, precision.prescale)
    if precision.flushes_subnormals:
        loss = max(loss, DTYPES[precision.accumulate].normal)
    return loss


def _lost_exp(precision: Precision) -> float:
    """What exp loses: a vectorised one may be 0 below the normal range, a half one is rounded."""
    of_softmax = DTYPES[precision.softmax]
    return of_softmax.underflow if of_softmax.is_half else of_softmax.normal


@dataclass(frozen=True, slots=True)
class BackwardPrecision:
    """The rounding points of a backward pass: flags, and counts of roundings to the inputs' dtype.

    weights: of P before its product with the output's gradient.
    kept: of P as it meets dP - delta.  products: of dP.
    logits: of dS, and of what is behind a bend once more.
    group: of a head's dK and dV before those of its group are summed.
    bias: of dBias before it is summed along the axes along which the bias is broadcast.
    results: of each gradient (where the scale is multiplied in afterwards, 2).
    is_of_returned: delta is formed of the output as it is returned.
    is_recomputed: P is formed anew, as exp(logit - logsumexp).
    is_normalised: delta comes from the output, or from a P that was divided by its own sum.
    partial: after so many terms a partial sum of a gradient is stored in the dtype; 0 means never.
    partial_biases: the same of the gradient of a bias of a layer's projection.
    reason: where this is documented, or how it was established.
    """

    weights: int = 1
    kept: int = 0
    products: int = 1
    logits: int = 1
    group: int = 1
    bias: int = 1
    results: int = 1
    is_of_returned: bool = True
    is_recomputed: bool = True
    is_normalised: bool = True
    partial: int = 0
    partial_biases: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return ", ".join(self.words_unlike(_PLAIN_BACKWARD))

    def words_unlike(self, other: BackwardPrecision) -> list[str]:
        """The words that differ from another class, each with its number: `kept 1`."""
        return [f"{word} {getattr(self, word)}" for word in BACKWARD_WORDS
                if word != "reason" and getattr(self, word) != getattr(other, word)]


_PLAIN_BACKWARD = BackwardPrecision()
BACKWARD_WORDS = tuple(each.name for each in fields(BackwardPrecision))
_COUNT_WORDS = ("weights", "kept", "products", "logits", "group", "bias", "results")
_PARTIAL_WORDS = ("partial", "partial_biases")
_MOST_ROUNDINGS = 64
_FUSED_BACKWARD = replace(_PLAIN_BACKWARD, products=0)
_WIDE_BACKWARD = replace(_FUSED_BACKWARD, weights=0, logits=0, group=0, is_of_returned=False)
_EAGER_BACKWARD = replace(_PLAIN_BACKWARD, kept=1, logits=2, results=2)
_BACKWARD_OF_GRADES: Mapping[str, BackwardPrecision] = {"G0": _WIDE_BACKWARD,
                                                        "G1": _FUSED_BACKWARD,
                                                        "G2": _FUSED_BACKWARD,
                                                        "G3": _EAGER_BACKWARD,
                                                        "G4": _EAGER_BACKWARD}


def assumed_backward(precision: Precision) -> BackwardPrecision:
    """The class of a backward pass that declares nothing, by its forward pass."""
    if DTYPES[precision.dtype].is_half:
        return _BACKWARD_OF_GRADES[precision.grade]
    return _PLAIN_BACKWARD


def declared_backward(declared: Mapping[str, object] | None,
                      precision: Precision) -> BackwardPrecision:
    """The class that a manifest declares for the backward pass of a forward class.

    Raises ManifestError for an unknown word or value, and where a class looser than the assumed
    one gives no reason.
    """
    assumed, words = assumed_backward(precision), declared or {}
    for word in words:
        if word not in BACKWARD_WORDS:
            raise ManifestError.unknown("word of a backward precision class", word, BACKWARD_WORDS)
    changes = {word: _read_backward_word(word, value) for word, value in words.items()}
    backward = replace(assumed, **changes)  # type: ignore[arg-type]  # checked by _value
    looser = [word for word in BACKWARD_WORDS if word != "reason"
              and _is_looser(word, backward, assumed)]
    if looser and not backward.reason:
        raise ManifestError(f"this backward precision class for {precision.dtype.value} is looser "
                            f"than the assumed one ({', '.join(looser)}); give a reason: where "
                            "the library documents it, or how it was established.")
    return backward


def format_backward(precision: Precision, backward: BackwardPrecision) -> str:
    """A class in words: `G1`, or the dtype for float32 and float64, with the words that differ.

    The name is that of the forward pass, from which whatever is not declared follows.
    """
    name = precision.grade if DTYPES[precision.dtype].is_half else precision.dtype.value
    return ", ".join((name, *backward.words_unlike(assumed_backward(precision))))


def _is_looser(word: str, one: BackwardPrecision, other: BackwardPrecision) -> bool:
    mine, theirs = getattr(one, word), getattr(other, word)
    if word == "is_normalised":
        return not mine and theirs
    # no class that is assumed stores partial sums: to declare that any is stored is looser
    return bool(mine > theirs)


def _read_backward_word(word: str, value: object) -> object:
    if word == "reason":
        return str(value)
    if word not in _COUNT_WORDS and word not in _PARTIAL_WORDS:
        if not isinstance(value, bool):
            raise ManifestError(f"{word!r} in a backward precision class must be true or false, "
                                f"not {quote_value(value)}.")
        return value
    most = _MOST_ROUNDINGS if word in _COUNT_WORDS else 2**30
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ManifestError(f"{word!r} in a backward precision class must be a whole number from "
                            f"0 to {most}, not {quote_value(value)}.")
    return value


@dataclass(frozen=True, slots=True)
class BackwardRoundings:
    """A backward class as plain numbers.

    Relative: weights, kept, products, logits, group, bias, results (all roundings of that kind
    together);
    of_output: of the output of which delta is formed;
    one: a single rounding to the dtype of the inputs;
    bend_error: of all that is stored behind a bend;
    scale: of a scale on both sides, query and key.
    Absolute: underflow, what one underflow in the dtype of the inputs loses; lost_logits, what dS
    loses; lost_inside, what one loses in a softmax whose format is coarser than the dtype, 0 if it
    is not.
    largest, largest_inside: what the dtype, and such a softmax, can hold.
    """

    forward: Roundings
    precision: BackwardPrecision
    weights: float
    kept: float
    products: float
    logits: float
    group: float
    bias: float
    results: float
    of_output: float
    one: float
    bend_error: float
    scale: float
    underflow: float
    largest: float
    lost_inside: float
    largest_inside: float

    @property
    def lost_logits(self) -> float:
        """What storing dS loses below the normal range."""
        return 3 * self.forward.lost_product + self.precision.logits * self.underflow


_SCALE_ROUNDINGS = 8
"""Roundings of a scale that query and key share: root, reciprocal, root, and the products."""


def backward_roundings(precision: Precision, backward: BackwardPrecision) -> BackwardRoundings:
    """The numbers of a class, for inputs of the dtype of the forward class."""
    io, r = DTYPES[precision.dtype], roundings(precision)
    counts = {word: compound(io.roundoff, getattr(backward, word)) for word in _COUNT_WORDS}
    flushes = precision.flushes_subnormals and DTYPES[precision.dtype].may_be_flushed
    of_output = max(r.accumulate, io.roundoff if backward.is_of_returned else 0.0)
    # slope, product and cap are formed in the softmax's format, and may be stored where logits are
    bend_error = (1 + r.softmax) ** 3 * (1 + r.logits) ** 3 * (1 + counts["logits"]) - 1
    # a scale that is split meets both query and key, each with a root of it
    scale = compound(r.accumulate, _SCALE_ROUNDINGS) + r.scale + r.prescale + r.scale * r.prescale
    softmax, lost_inside, largest_inside = DTYPES[precision.softmax], 0.0, math.inf
    # a softmax narrower than its inputs rounds P and dS on their way, and may overflow
    if softmax.roundoff > io.roundoff:
        lost_inside = softmax.normal if flushes else softmax.underflow
        largest_inside = softmax.largest
    return BackwardRoundings(r, backward, **counts, of_output=of_output, one=io.roundoff,
                             bend_error=bend_error, scale=scale,
                             underflow=io.normal if flushes else io.underflow, largest=io.largest,
                             lost_inside=lost_inside, largest_inside=largest_inside)
