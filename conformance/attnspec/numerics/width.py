"""Whether a precision class is too wide: which plain mistakes would conform under it."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.plain_mistakes import MISTAKES, SLICED, Mistake, answered, shown_by, sliced
from attnspec.numerics.precision import Precision, assumed, looser_words, unit
from attnspec.numerics.score import DirectionName, Drifts, drifts_of, threshold
from attnspec.numerics.systematic import drift_of_sums, systematic_error
from attnspec.problems.problem import Array, Sizes

FALSE_ALARM = 1e-9
"""Of the clauses of drift."""

_DIRECTIONS: tuple[DirectionName, ...] = ("temperature", "gain", "mixing")


def refuse_too_wide(precision: Precision) -> None:
    """Raise ManifestError where some plain mistake conforms under the class. Formats of codes are none that could be
    chosen wider: a class is looked at without them, and the verdict says what they let pass.
    """
    precision = precision.without_stored()
    if not looser_words(precision, assumed(precision.dtype)):
        return
    acquitted = acquitted_by(precision)
    if acquitted:
        more = f" (and {len(acquitted) - 1} more mistakes as plain)" if len(acquitted) > 1 else ""
        raise ManifestError(f"this precision class for {precision.dtype.value} ({precision}) is too wide: "
                            f"{acquitted[0].name} conforms under it{more}. Declare no more than what the function "
                            "rounds, each word with the format or the number that is documented.")


def acquitted_by(precision: Precision) -> tuple[Mistake, ...]:
    """The plain mistakes that conform under a class, none of them if it says something."""
    return _acquitted_by(replace(precision.without_stored(), reason=""))


@functools.cache
def _acquitted_by(precision: Precision) -> tuple[Mistake, ...]:
    return tuple(each for each in MISTAKES if not is_detected(each, precision))


def is_detected(mistake: Mistake, precision: Precision) -> bool:
    """Whether a single entry of a mistake's answer is beyond what the class allows, or the mean of all entries is."""
    if _is_beyond_the_bound(mistake, precision):
        return True
    return mistake.is_everywhere and any(_drifts(mistake, precision, sizes) for sizes in SLICED)


def _is_beyond_the_bound(mistake: Mistake, precision: Precision) -> bool:
    shown = shown_by(mistake, precision.dtype)
    expected = expect(shown.problem, precision, conventions={}, parts=frozenset({"output", "typical"}))
    apart = np.abs(shown.answer.astype(np.float64) - expected.output)
    allowance = expected.typical_allowance(FALSE_ALARM) if mistake.is_of_plain_calls else expected.output_allowance
    return bool((expected.claimed[..., None] & (apart > allowance)).any())


def _drifts(mistake: Mistake, precision: Precision, sizes: Sizes) -> bool:
    problem = sliced(precision.dtype, sizes)
    if not expect(problem, precision, conventions={}, parts=frozenset({"output"})).claimed.all():
        return False
    drifts = _pushes(precision.dtype, sizes, unit(precision.weights).roundoff / unit(precision.output).roundoff)
    error = _as_slices(answered(mistake, precision.dtype, sizes)) - drifts.truth
    return any(drifts.units(direction, error).least(_declared(drifts, direction, precision, sizes))
               > threshold(FALSE_ALARM, len(SLICED) + 1) for direction in _DIRECTIONS)


def _declared(drifts: Drifts, direction: DirectionName, precision: Precision, sizes: Sizes) -> float:
    weights, value = _weights(precision.dtype, sizes)
    is_of_logits = direction == "temperature"
    return drift_of_sums(drifts, direction, weights, value, precision) + systematic_error(
        precision, direction, scale_width=sizes.D if is_of_logits else None, products=sizes.D if is_of_logits else 0)


@functools.cache
def _weights(dtype: DType, sizes: Sizes) -> tuple[Array, Array]:
    """(n,1,T,S) and (n,1,S,Dv): the weights by definition, and the values, a head slice each."""
    problem = sliced(dtype, sizes)
    found = expect(problem, assumed(dtype), conventions={}, parts=frozenset({"weights"}))
    return _as_slices(found.weights), _as_slices(problem.value)


@functools.cache
def _pushes(dtype: DType, sizes: Sizes, stored: float) -> Drifts:
    return drifts_of(*_weights(dtype, sizes), stored=stored)


def _as_slices(array: Array) -> Array:
    """Any shape (B,H,·,·) as (n,1,·,·) in float64: batch entries and heads side by side."""
    return array.astype(np.float64).reshape(-1, 1, *array.shape[2:])
