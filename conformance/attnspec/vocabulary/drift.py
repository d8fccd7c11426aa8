"""A word of `then`: no drift, however small. The instrument is the self-normalised score test of numerics/score.py."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from attnspec.numerics.precision import systematic_error
from attnspec.numerics.score import DirectionName, Units, significance, threshold, units_of
from attnspec.problems.problem import Array
from attnspec.problems.shapes import SCORED
from attnspec.record.outcome import Measured, Reading
from attnspec.vocabulary.measure import nothing, verdict
from attnspec.vocabulary.observables import defined, see
from attnspec.vocabulary.scene import Scene, Seen, working
from attnspec.vocabulary.signature import ORIGINAL, Between, RunName


def has_no_drift(scene: Scene, *, direction: DirectionName, false_alarm: Annotated[float, Between(1e-15, 0.5)],
                 run: RunName = ORIGINAL) -> Measured:
    """The output is not pushed in a direction, beyond the systematic error that the subject declares.

    temperature: logits scaled by 1 + x; gain: outputs scaled by 1 + x; mixing: a share x of the weight spread evenly.
    Head slices are independent, and rounding errors symmetric in each of them; false_alarm bounds the rate at which
    such a subject is accused by a clause, all of its cases together.
    """
    seen = see(scene, run, "output")
    sliced = seen.claimed.all(axis=(-2, -1))
    limit = threshold(false_alarm, SCORED)
    if sliced.sum() <= limit * limit:
        return nothing("has_no_drift", f"{sliced.sum()} head slices are claimed; no statistic of {limit * limit:.0f} or "
                       "fewer can reach the threshold")
    if not np.isfinite(seen.array).all():
        return verdict("has_no_drift", "the output is not finite", broken=True)
    return _measured(_units(scene, run, direction, seen, sliced), direction, limit, _declared(scene, run, direction))


def _declared(scene: Scene, run: str, direction: DirectionName) -> float:
    """The systematic error of the subject's class; the scale is part of the temperature only."""
    width = scene.subject.scale_width(scene.problem(run)) if direction == "temperature" else None
    return systematic_error(scene.bench.precision, scale_width=width)


def _units(scene: Scene, run: str, direction: DirectionName, seen: Seen, sliced: Array) -> Units:
    """The units of all head slices (B,H) that are claimed throughout."""
    weights = defined(scene, run, "weights", ("B", "H", "T", "S"), lambda expected: expected.weights)
    value = working(scene.bench.values_by_head(scene.problem(run)), scene.dtype)
    parts = (seen.array - seen.truth, weights, value)
    error, weights, value = (np.asarray(part[sliced][:, None], np.float64) for part in parts)
    return units_of(direction, error=error, weights=weights, value=value)


def _measured(units: Units, direction: DirectionName, limit: float, declared: float) -> Measured:
    statistic, estimate, spread = units.least(declared), units.estimate, units.spread
    broken = statistic > limit
    sentence = (f"the {direction} drifts by {estimate:.2g} ± {spread:.1g}, and up to {declared:.2g} is declared: "
                f"|T| = {statistic:.2f} over {units.count} head slices, where {limit:.2f} is allowed")
    return Measured("has_no_drift", sentence, statistic / limit, statistic, limit, estimate, 0.0, (), units.count,
                    units.count, int(broken), (_reading(units, direction),))


def _reading(units: Units, direction: DirectionName) -> Reading:
    """What was measured, whether or not it is declared."""
    estimate, spread, against_none = units.estimate, units.spread, units.statistic()
    chance = significance(against_none)
    sentence = (f"{direction} drift {estimate:+.1e} ± {spread:.0e} over {units.count} head slices; "
                f"T = {against_none:+.1f} against none, by chance at most {chance:.1g}")
    return Reading(f"{direction} drift", estimate, spread, sentence)
