"""The truth of quantised attention is that of (code - zero) · scale, exact in float64.

A code has at most 8 bits, the difference of a whole one and a zero point of eighths 12, and a
scale 24, so that nothing is rounded here. A subject may multiply each code by its scale and round
once, or fold the scale into the logits or the output, which rounds once there; and it may round
the scale itself, or the product of two scales, before. So each scale costs two roundings, in the
format of the accumulator or in the one that is declared as `dequantised`. A zero point may be
subtracted before or behind the scale, from entries or from a whole sum: numbers as large as |code|
+ |zero| times the scale are added and rounded. Quantising itself is no part of it.
docs/quantised.md has the derivation.
"""

from __future__ import annotations

import numpy as np

from attnspec.aspects.quantised.arrays import EVERY, ZEROS
from attnspec.core.dtype import DTYPES
from attnspec.numerics.operands import Mathematics
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import EXACT_INPUTS, InputErrors, compound
from attnspec.problems.keyword_arrays import split_past_alike
from attnspec.problems.problem import INPUTS, Array, Problem, join_past

ROUNDINGS_OF_A_SCALE = 2
"""The rounding of the product with a code, a logit or an output, and before it that of the scale
itself, or of its product with another."""

ROUNDINGS_OF_A_ZERO = 2
"""The rounding of the difference, and before it that of the zero point. Its product with a scale
has the roundings of the scale."""


class QuantisedMathematics(Mathematics):
    """Dequantises codes exactly, and counts the roundings that a subject may make of that."""

    def read_entries(self, problem: Problem) -> Problem:
        """Dequantise query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,Dv) in float64, with past
        keys and values: scales and zero points are for all keys.
        """
        given = problem.given
        names = {name for keyword, name in EVERY.items() if keyword in given}
        if not names:
            return problem
        whole = join_past(problem)
        arrays = {}
        for name in names:
            scale, zero = _scale_of(problem, name), given.get(f"{name}_zero")
            with np.errstate(invalid="ignore"):  # 0 times a code that is infinite
                arrays[name] = dequantise_codes(getattr(whole, name), scale, zero)
        return split_past_alike(problem, whole.but(**arrays, **dict.fromkeys(EVERY)))

    def input_errors(self, problem: Problem, precision: Precision) -> InputErrors:
        """Count two roundings for each scale, and for each zero point two of numbers that are
        larger by twice that. Codes are larger than their numbers where a scale is below 1.
        """
        given = problem.given
        scales = {name: scale for name in INPUTS if (scale := _scale_of(problem, name)) is not None}
        zeros = {name: given[keyword] for keyword, name in ZEROS.items() if keyword in given}
        if not scales and not zeros:
            return EXACT_INPUTS
        coarsest = max(DTYPES[dtype].roundoff for dtype in (precision.dequantised, precision.accumulate))
        counts = {}
        for name in INPUTS:
            scale_count = (f"{name}_scale" in given) + (f"{name}_global_scale" in given)
            counts[name] = ROUNDINGS_OF_A_SCALE * scale_count + ROUNDINGS_OF_A_ZERO * (name in zeros)
        growth = {name: max(1.0, 1 / _least(scale)) for name, scale in scales.items()}
        offsets = {f"{name}_offset": 2 * _largest_product(zero, scales.get(name)) for name, zero in zeros.items()}
        return InputErrors(
            of_logits=compound(coarsest, counts["query"] + counts["key"]),
            of_values=compound(coarsest, counts["value"]),
            logit_growth=growth.get("query", 1.0) * growth.get("key", 1.0),
            value_growth=growth.get("value", 1.0), **offsets)


def _scale_of(problem: Problem, name: str) -> Array | None:
    """The scales of an array (B,H,S,D) times its second scale, exact in float64, if any."""
    scales = (getattr(problem, f"{name}_scale"), getattr(problem, f"{name}_global_scale"))
    wide = [scale.astype(np.float64) for scale in scales if scale is not None]
    return np.asarray(np.prod(wide, axis=0)) if wide else None


def dequantise_codes(codes: Array, scale: Array | None, zero: Array | None = None) -> Array:
    """Subtract zero points from codes of any shape, and multiply by scales, exactly."""
    numbers = codes.astype(np.float64)
    if zero is not None:
        numbers = numbers - zero.astype(np.float64)
    if scale is not None:
        numbers = numbers * scale.astype(np.float64)
    return np.asarray(numbers)


def _largest_product(zero: Array, scale: Array | None) -> float:
    """The largest size of a zero point, of any shape, times its scale, of the same."""
    return float(np.abs(dequantise_codes(zero, scale)).max(initial=0.0))


def _least(scale: Array) -> float:
    """The least size of scales of any shape that are not 0, at most 1."""
    sizes = np.abs(scale[(scale != 0) & np.isfinite(scale)])
    return float(sizes.min(initial=1.0))


MATHEMATICS = QuantisedMathematics()
