"""Quantised attention in numbers: the truth is attention of (code - zero) · scale, which float64 holds exactly.

A code has at most 8 bits, the difference of a whole one and a zero point of eighths 12, and a scale 24, so that nothing
is rounded here. What a subject may do: multiply each code by
its scale and round once; or fold the scale into the logits, or into the output, which rounds once there; and round the
scale itself, or the product of two scales, before. So there are two roundings for each scale on the way, in the format
of the accumulator or in the one that is declared as `dequantised`. A zero point may be taken off before or behind the
scale, entry by entry or of a whole sum, so that numbers as large as |code| + |zero| times the scale are added and
rounded. Quantising itself is no part of it. The derivation is in docs/quantised.md.
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
"""Of the product with a code, a logit or an output; and of the scale itself, or its product with another, before."""

ROUNDINGS_OF_A_ZERO = 2
"""Of the difference; and of the zero point itself, before. Its product with a scale has those of the scale."""


class QuantisedMathematics(Mathematics):
    """Codes are multiplied by their scales before anything else."""

    def read_entries(self, problem: Problem) -> Problem:
        """The same with dequantised query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,Dv) in float64, past keys and
        values among them: scales and zero points are for all keys.
        """
        given = problem.given
        used = dict.fromkeys(name for keyword, name in EVERY.items() if keyword in given)
        if not used:
            return problem
        whole = join_past(problem)
        with np.errstate(invalid="ignore"):  # 0 times a code that is infinite
            arrays = {name: dequantise_codes(getattr(whole, name), _scale_of(problem, name), given.get(f"{name}_zero"))
                      for name in used}
        return split_past_alike(problem, whole.but(**arrays, **dict.fromkeys(EVERY)))

    def input_errors(self, problem: Problem, precision: Precision) -> InputErrors:
        """Two roundings a scale, and two a zero point, of numbers that are larger by twice the zero point; and codes
        are larger than the numbers that they stand for where a scale is below 1.
        """
        given = problem.given
        scales = {name: scale for name in INPUTS if (scale := _scale_of(problem, name)) is not None}
        zeros = {name: given[keyword] for keyword, name in ZEROS.items() if keyword in given}
        if not scales and not zeros:
            return EXACT_INPUTS
        coarsest = max(DTYPES[dtype].roundoff for dtype in (precision.dequantised, precision.accumulate))
        times = {name: ROUNDINGS_OF_A_SCALE * sum(f"{name}_{word}" in given for word in ("scale", "global_scale"))
                 + ROUNDINGS_OF_A_ZERO * (name in zeros) for name in INPUTS}
        growth = {name: max(1.0, 1 / _least(scale)) for name, scale in scales.items()}
        offsets = {f"{name}_offset": 2 * _largest_product(zero, scales.get(name)) for name, zero in zeros.items()}
        return InputErrors(
            of_logits=compound(coarsest, times["query"] + times["key"]), of_values=compound(coarsest, times["value"]),
            logit_growth=growth.get("query", 1.0) * growth.get("key", 1.0), value_growth=growth.get("value", 1.0),
            **offsets)


def _scale_of(problem: Problem, name: str) -> Array | None:
    """The scales of an array (B,H,S,D), times the one of the whole array, in float64, exactly; None without any."""
    given = [scale.astype(np.float64) for word in ("scale", "global_scale")
             if (scale := getattr(problem, f"{name}_{word}")) is not None]
    return np.asarray(np.prod(given, axis=0)) if given else None


def dequantise_codes(codes: Array, scale: Array | None, zero: Array | None = None) -> Array:
    """Codes of any shape less zero points, times scales, of the same shape each, in float64, exactly."""
    wide = codes.astype(np.float64)
    wide = wide if zero is None else wide - zero.astype(np.float64)
    return np.asarray(wide if scale is None else wide * scale.astype(np.float64))


def _largest_product(zero: Array, scale: Array | None) -> float:
    """The largest size of a zero point, of any shape, times its scale, of the same."""
    products = zero.astype(np.float64) if scale is None else zero.astype(np.float64) * scale.astype(np.float64)
    return float(np.abs(products).max(initial=0.0))


def _least(scale: Array) -> float:
    """The least size of a scale, of any shape, that is not 0; 1 where there is none."""
    sizes = np.abs(scale[(scale != 0) & np.isfinite(scale)])
    return float(sizes.min(initial=1.0))


MATHEMATICS = QuantisedMathematics()
