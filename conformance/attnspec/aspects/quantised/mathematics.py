"""Quantised attention in numbers: the truth is attention of code · scale, which float64 holds exactly.

A code has at most 8 bits and a scale 24, so that nothing is rounded here. What a subject may do: multiply each code by
its scale and round once; or fold the scale into the logits, or into the output, which rounds once there; and round the
scale itself, or the product of two scales, before. So there are two roundings for each scale on the way, in the format
of the accumulator or in the one that is declared as `dequantised`. Quantising itself is no part of it. The derivation
is in docs/quantised.md.
"""

from __future__ import annotations

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES
from attnspec.numerics.operands import Mathematics
from attnspec.numerics.precision import Precision, unit
from attnspec.numerics.roundings import EXACT_INPUTS, InputErrors, compound
from attnspec.problems.keyword_arrays import divide_alike
from attnspec.problems.problem import Array, Problem, joined

ROUNDINGS_OF_A_SCALE = 2
"""Of the product with a code, a logit or an output; and of the scale itself, or its product with another, before."""


class QuantisedMathematics(Mathematics):
    """Codes are multiplied by their scales before anything else."""

    def attending(self, problem: Problem) -> Problem:
        """The same with dequantised query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,Dv) in float64, past keys and
        values among them: scales are for all keys.
        """
        used = {keyword: name for keyword, name in NAMES.items() if keyword in problem.given}
        if not used:
            return problem
        with np.errstate(invalid="ignore"):  # 0 times a code that is infinite
            whole = joined(problem)
            arrays = {name: dequantised(getattr(whole, name), getattr(problem, keyword))
                      for keyword, name in used.items()}
        return divide_alike(problem, whole.but(**arrays, **dict.fromkeys(used)))

    def input_errors(self, problem: Problem, precision: Precision) -> InputErrors:
        """Two roundings a scale; and codes are larger than the numbers that they stand for where a scale is below 1."""
        scales = {name: getattr(problem, keyword) for keyword, name in NAMES.items() if keyword in problem.given}
        if not scales:
            return EXACT_INPUTS
        coarsest = max((precision.dequantised, precision.accumulate), key=lambda dtype: unit(dtype).roundoff)
        on_logits = sum(name != "value" for name in scales)
        growth = {name: max(1.0, 1 / _least(scale)) for name, scale in scales.items()}
        return InputErrors(
            of_logits=compound(coarsest, ROUNDINGS_OF_A_SCALE * on_logits),
            of_values=compound(coarsest, ROUNDINGS_OF_A_SCALE * ("value" in scales)),
            logit_growth=growth.get("query", 1.0) * growth.get("key", 1.0), value_growth=growth.get("value", 1.0))


def dequantised(codes: Array, scale: Array) -> Array:
    """Codes of any shape times scales of the same shape, in float64, exactly."""
    return np.asarray(codes.astype(np.float64) * scale.astype(np.float64))


def _least(scale: Array) -> float:
    """The least size of a scale, of any shape, that is not 0; 1 where there is none."""
    sizes = np.abs(scale[(scale != 0) & np.isfinite(scale)])
    return float(sizes.min(initial=1.0))


MATHEMATICS = QuantisedMathematics()
