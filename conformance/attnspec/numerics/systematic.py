"""How large an error may be that is the same everywhere: what a precision class vouches for."""

from __future__ import annotations

import math

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.precision import Precision, is_half, unit
from attnspec.numerics.score import DirectionName, Drifts
from attnspec.problems.problem import Array

UNITS_OF_THE_ACCUMULATOR = 8
"""Roundings that every entry of an answer may share: the scale 4 (root and reciprocal, of a scale split in two), the
constants log2(e) and ln(2) of the exponential 1 each, and what its polynomial is off by on average 2 (1 ulp)."""

CONSTANTS_OF_THE_EXPONENTIAL = 2
"""log2(e) and ln(2), of an exponential in a half format. Its polynomial is evaluated in float32, and the scale has a
format of its own; rounding to nearest has no mean."""

GUARDED = 1 / 16
"""Of a unit of the output: what truncation adds on average if four bits beyond the output's are kept."""

_WORKING = ("accumulate", "softmax", "row_sum")
_STORED = ("output", "weights", "logits", "prescale")


def systematic_error(precision: Precision, direction: DirectionName = "gain", *, scale_width: int | None = None,
                     products: int = 0) -> float:
    """How large a relative error may be that is the same everywhere: what a subject of this class vouches for.

    Some units of the coarsest of what sums, exponentials and quotients are computed in, which is float32 at the
    coarsest: what is stored in a half format is rounded to nearest, without a mean. But the constants of a half
    exponential move all logits. Where the class does not vouch for that, besides it, a sixteenth of a unit of the
    output. Rounding to nearest adds u² a storage: numbers just above a power of two are rounded more coarsely than
    those below, which leaves -u²/5 on average. Sums in a half format: see `drift_of_sums`.
    scale_width: what the default scale is the root of, for errors of the temperature: a constant that is stored more
    coarsely than all else is off by its roundings, unless its root and fourth root are powers of two.
    products: of how many a logit is the sum, for errors of the logits.
    """
    working = max(unit(_wide(getattr(precision, word))).roundoff for word in _WORKING)
    halves = {precision.softmax, precision.row_sum, precision.accumulate} & {DType.FLOAT16, DType.BFLOAT16}
    stored = max(unit(dtype).roundoff for dtype in (*(getattr(precision, word) for word in _STORED), *halves))
    error = UNITS_OF_THE_ACCUMULATOR * working + stored**2
    if precision.systematic == "output":
        error += GUARDED * unit(precision.output).roundoff
    if is_half(precision.softmax) and direction != "gain":
        error += CONSTANTS_OF_THE_EXPONENTIAL * unit(precision.softmax).roundoff
    if is_half(precision.accumulate):
        error += products * unit(precision.accumulate).roundoff ** 2
    constant = unit(precision.scale).roundoff
    if scale_width is not None and constant > working and math.log(scale_width, 16) % 1:
        error += precision.scale_roundings * constant
    return error


def _wide(dtype: DType) -> DType:
    return DType.FLOAT32 if is_half(dtype) else dtype


def drift_of_sums(drifts: Drifts, direction: DirectionName, weights: Array, value: Array,
                  precision: Precision) -> float:
    """The drift that sums in a half format may have, of weights (n,1,T,S) and values (n,1,S,Dv); 0 if none is one.

    A term that is smaller than half a unit of the partial sum is lost, always; see `lost_terms`. What that would do to
    the output is scored like any error, once for the sum with the values and once for the row's sum.
    """
    found = 0.0
    if is_half(precision.accumulate):
        found += abs(drifts.units(direction, lost_terms(weights, precision.accumulate) @ value).estimate)
    if is_half(precision.row_sum):
        total = lost_terms(weights, precision.row_sum).sum(axis=-1, keepdims=True)
        found += abs(drifts.units(direction, (weights @ value) * total).estimate)
    return found


def lost_terms(weights: Array, dtype: DType) -> Array:
    """Any shape: how much of each weight, at the most, a sum of weights in this format loses on average, in any order.

    The sum is 1 at the most, and its numbers are h = 2u apart. Of a term x above h, the bits that are cut off have a
    smooth density f, and rounding to nearest is off by h²/24·f'/f on average, which is h²/(24 x) = u²/(6 x) where every
    size is as likely as another; of a smaller one, by no more than all of it.
    """
    u = unit(dtype).roundoff
    return np.asarray(np.minimum(weights, u * u / (6 * np.maximum(weights, np.finfo(np.float64).tiny))))
