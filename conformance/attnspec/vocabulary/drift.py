"""A word of `then`: no drift, however small. The instrument is the self-normalised score test of numerics/score.py."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from attnspec.numerics.expectation import Expectation
from attnspec.numerics.precision import Precision, systematic_error
from attnspec.numerics.score import DirectionName, Units, significance, threshold, units_of
from attnspec.numerics.units import unit
from attnspec.problems.problem import Array
from attnspec.record.outcome import Measured, Reading
from attnspec.vocabulary.measure import nothing, verdict
from attnspec.vocabulary.observables import expectations, observe
from attnspec.vocabulary.scene import Scene, working
from attnspec.vocabulary.signature import ORIGINAL, Between, RunName


def has_no_drift(scene: Scene, *, direction: DirectionName, false_alarm: Annotated[float, Between(1e-15, 0.5)],
                 run: RunName = ORIGINAL) -> Measured:
    """The output is not pushed in a direction, beyond the systematic error that the subject declares.

    temperature: dot products scaled by 1 + x; gain: outputs scaled by 1 + x; mixing: a share x of the weight spread
    evenly over the keys; bias: the bias scaled by 1 + x, where there is one.
    Head slices are independent, and rounding errors symmetric in each of them; false_alarm bounds the rate at which
    such a subject is accused by a clause, all of its cases together.
    """
    [expected] = expectations(scene, scene.runs[run], "weights")
    sliced = _claimed(expected, scene)
    limit = threshold(false_alarm, scene.cases)
    if sliced.sum() <= limit * limit:
        return nothing("has_no_drift", f"{sliced.sum()} head slices are claimed, and more than {limit * limit:.0f} are "
                       "needed to convict at this rate")
    output = observe(scene, run, "output").array
    if not np.isfinite(output).all():
        return verdict("has_no_drift", "the output is not finite", broken=True)
    problem, weights = scene.problem(run), expected.weights
    value = working(scene.bench.values_by_head(problem), scene.dtype)
    error, weights, value = (_sliced(part, sliced) for part in (output - weights @ value, weights, value))
    bias = None if problem.bias is None else _sliced(problem.bias, sliced)
    units = units_of(direction, error=error, weights=weights, value=value, bias=bias,
                     stored=_stored(scene.bench.precision))
    return _measured(units, f"{direction} drift at width {problem.sizes.D}", limit, _declared(scene, run, direction))


def _claimed(expected: Expectation, scene: Scene) -> Array:
    """(B,H): the head slices all of whose rows may be judged. A layer's output projection mixes the heads."""
    sliced = np.asarray(expected.claimed.all(axis=-1))
    return sliced & sliced.all(axis=1, keepdims=True) if scene.is_layer else sliced


def _declared(scene: Scene, run: str, direction: DirectionName) -> float:
    """The systematic error of the subject's class; the scale is part of the temperature only."""
    width = scene.subject.scale_width(scene.problem(run)) if direction == "temperature" else None
    return systematic_error(scene.bench.precision, scale_width=width)


def _stored(precision: Precision) -> float:
    """A rounding of a weight over one of the output."""
    return unit(precision.weights).roundoff / unit(precision.output).roundoff


def _sliced(array: Array, sliced: Array) -> Array:
    """(B,H,·,·) -> (n,1,·,·) in float64."""
    return np.asarray(array[sliced][:, None], np.float64)


def _measured(units: Units, what: str, limit: float, declared: float) -> Measured:
    statistic, estimate, spread = units.least(declared), units.estimate, units.spread
    sentence = (f"{what} is {estimate:.2g} ± {spread:.1g}, and up to {declared:.2g} is declared: |T| = {statistic:.2f} "
                f"over {units.count} head slices, where {limit:.2f} is allowed")
    return Measured("has_no_drift", sentence, statistic / limit, statistic, limit, estimate, 0.0, (), units.count,
                    units.count, int(statistic > limit), (_reading(units, what),))


def _reading(units: Units, what: str) -> Reading:
    """What was measured, whether or not it is declared."""
    estimate, spread, against_none = units.estimate, units.spread, units.statistic()
    sentence = (f"{what}: {estimate:+.1e} ± {spread:.0e} over {units.count} head slices; T = {against_none:+.1f} "
                f"against none, by chance at most {significance(against_none):.1g}")
    return Reading(what, estimate, spread, sentence)
