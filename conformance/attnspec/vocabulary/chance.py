"""Words of `then` that rest on chance, each at a stated rate of false alarms; drifts are among
them.

No case that breaks them is searched for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import Kind
from attnspec.numerics.expectation import Expectation
from attnspec.numerics.precision import Precision
from attnspec.numerics.reference import wide_float
from attnspec.numerics.score import (
    DirectionName,
    Drifts,
    Units,
    compute_drifts,
    drift_of_sums,
    significance,
    systematic_error,
    threshold,
)
from attnspec.numerics.width import Fit, fingerprint, tightest
from attnspec.problems.problem import Array, Sizes
from attnspec.record.outcome import Measured, Reading
from attnspec.vocabulary.observables import (
    LOOKS,
    by_definition,
    compare,
    expectations,
    look_at,
    measure,
    nothing,
    observe,
    seen_of,
    verdict,
)
from attnspec.vocabulary.scene import Scene
from attnspec.vocabulary.signature import ORIGINAL, Between, RunName

Rate = Annotated[float, Between(1e-15, 0.5)]


def agrees_typically(scene: Scene, *, observe: Literal["output"], false_alarm: Rate,
                     run: RunName = ORIGINAL) -> Measured:
    """The observed array equals the definition's, within what independent rounding errors add up
    to.

    false_alarm: how often, at the most, a subject that rounds as it declares fails the clause, all
    its cases together.
    """
    return _agree_typically(scene, run, false_alarm, what=f"{observe} against the definition")


def _agree_typically(scene: Scene, run: str, false_alarm: float, *, what: str) -> Measured:
    [expected] = expectations(scene, scene.runs[run], "typical")
    truth, _, claimed = LOOKS["output"].define(expected, scene)
    allowance = expected.typical_allowance(false_alarm / scene.cases)
    output = observe(scene, run, "output").array
    return compare(scene, "agrees_typically", seen_of("output", run, output), by_definition("output", run, truth),
                   (allowance, claimed), what=f"{what}, if rounding errors are independent")


def is_as_precise_as_declared(scene: Scene, *, false_alarm: Rate, run: RunName = ORIGINAL) -> Measured:
    """Independent rounding errors of the declared precision class explain the error of every
    entry.

    The finest class that explains them as well is reported: a subject may be more precise than it
    declares. false_alarm: as in `agrees_typically`.
    """
    problem, name = scene.problem(run), "is_as_precise_as_declared"
    result = _agree_typically(scene, run, false_alarm, what="output under the declared precision class")
    fits = fingerprint(problem, observe(scene, run, "output").array, scene.evaluator.precision,
                       conventions=scene.conventions, scale_width=scene.subject.scale_width(problem),
                       false_alarm=false_alarm)
    return replace(result, relation=name, readings=(_grade(fits, scene),))


def _grade(fits: tuple[Fit, ...], scene: Scene) -> Reading:
    """The finest grade that explains all errors, by what others miss and what is declared."""
    best = tightest(fits)
    tighter = fits
    explained = "no class explains the errors"
    if best:
        tighter = fits[:fits.index(best)]
        explained = f"{best.name} explains all errors (the worst is {best.ratio:.2g} of what it allows)"
    missed = [f"{fit.name} is exceeded by a factor of {fit.ratio:.3g}" for fit in tighter]
    text = "; ".join((explained, *missed, f"{scene.evaluator.precision} is declared"))
    return Reading("precision grade", best.name if best else "none", 0.0, text)


def has_variance(scene: Scene, *, value: Literal["one", "d_k"], false_alarm: Rate,
                 run: RunName = ORIGINAL) -> Measured:
    """For independent standard-normal queries and keys, the logits have this variance.

    Given a query q, the sum over keys of (s - mean)^2 d_k / |q|^2 is chi-squared with S - 1
    degrees of freedom for logits s = q·k / sqrt(d_k), exactly, when every query has keys of its
    own; the sums of independent queries add. The tails are bounded by Chernoff's inequality, so
    that the rate holds at every size.
    """
    seen, problem = look_at(scene, run, "logits"), scene.problem(run)
    if not seen.claimed.all():
        return nothing("has_variance", "some weights are too small to compute their logits from them")
    width = scene.subject.scale_width(problem)  # of a layer whose heads are padded, that of its heads
    norms = np.square(problem.query.astype(np.float64)).sum(axis=-1)
    law = norms / width if value == "one" else norms
    pivot = float((np.square(_centre_rows(seen.array)).sum(axis=-1) / law).sum())
    freedom = seen.array[..., 1:].size
    misread = float((np.square(seen.allowance).sum(axis=-1) / law).sum())
    what = f"at d_k = {width}, the variance of the logits divided by the variance that they should have"
    return _variance(pivot / freedom, misread / freedom, freedom, false_alarm, what)


def _centre_rows(logits: Array) -> Array:
    """Logits (B,H,T,S) less the mean of their row."""
    return np.asarray(logits - logits.mean(axis=-1, keepdims=True), dtype=np.float64)


def _variance(ratio: float, misread: float, freedom: int, false_alarm: float, what: str) -> Measured:
    # reading the logits errs: by Cauchy and Schwarz a sum of squares moves by at most that
    spread = 2 * math.sqrt(ratio * misread) + misread
    low, high = (chernoff(freedom, false_alarm / 2, side) for side in (-1, 1))
    allowance = spread + (high - 1 if ratio > 1 else 1 - low)
    return measure("has_variance", np.array(ratio), np.array(1.0), allowance, np.ones((), bool), what=what)


def chernoff(freedom: int, rate: float, side: Literal[-1, 1]) -> float:
    """The ratio beyond which chi-squared/freedom lies with at most this probability.

    side: 1 for a ratio above 1, -1 for one below. P(X >= n r) <= exp(-n (r - 1 - ln r) / 2) for r
    > 1, and the same on the other side for r < 1.
    """
    target = -2 * math.log(rate) / freedom
    # r - 1 - ln r grows from 0 at r = 1 to either side, and at the far end is above the target
    near, far = 1.0, (1e-300 if side < 0 else 2 + 2 * target)
    for _ in range(200):
        middle = (near + far) / 2
        near, far = (middle, far) if middle - 1 - math.log(middle) < target else (near, middle)
    return far


def has_no_drift(scene: Scene, *, direction: DirectionName, false_alarm: Annotated[float, Between(1e-15, 0.5)],
                 run: RunName = ORIGINAL) -> Measured:
    """The errors of the output do not all push in one direction by more than the systematic error
    that is declared.

    temperature: dot products scaled by 1 + x; gain: outputs scaled by 1 + x; mixing: a share x of
    the weight spread evenly over the keys; bias: the bias scaled by 1 + x, where there is one. A
    head slice is one head of one batch entry. The slices are independent, and rounding errors are
    symmetric in each. false_alarm: how often, at the most, such a subject fails the clause, all
    its cases together.
    """
    [expected] = expectations(scene, scene.runs[run], "weights")
    sliced = _judged_slices(expected, scene)
    limit = threshold(false_alarm, scene.cases)
    if scene.evaluator.precision.stored_formats:
        return nothing("has_no_drift", "the subject stores its entries as others, which has no mean of its own that is "
                       "known, and moves all weights of a row by its square")
    # |T| is at most sqrt(units): with fewer slices no verdict is possible at this rate
    if sliced.sum() <= limit * limit:
        return nothing("has_no_drift", f"{sliced.sum()} head slices can be judged; at this rate of false alarms, more "
                       f"than {limit * limit:.0f} are needed")
    output = observe(scene, run, "output").array
    if not np.isfinite(output).all():
        return verdict("has_no_drift", "the output is not finite", broken=True)
    problem = scene.problem(run)
    value = scene.evaluator.values_by_head(problem).astype(wide_float(scene.dtype))
    drifts = scene.evaluator.drifts(scene.runs[run].key, lambda: _drifts(expected, scene, run, value, sliced))
    units = drifts.units(direction, _take_slices(output, sliced) - drifts.truth)
    declared = _declared_error(scene, run, direction) + drift_of_sums(
        drifts, direction, _take_slices(expected.weights, sliced), _take_slices(value, sliced),
        scene.evaluator.precision)
    return _measure_units(units, f"{direction} drift at {_place(problem.sizes)}", limit, declared)


def _place(sizes: Sizes) -> str:
    """Where a drift is measured, in words; that keys are few is told only then."""
    return f"width {sizes.D}" if sizes.S >= sizes.T else f"width {sizes.D}, {sizes.S} keys"


def _drifts(expected: Expectation, scene: Scene, run: str, value: Array, sliced: Array) -> Drifts:
    """The drifts of the truth in the head slices `sliced` (B,H); value: (B,H,S,Dv)."""
    bias = scene.problem(run).bias
    if bias is not None:
        bias = np.asarray(_take_slices(bias, sliced), np.float64)
    return compute_drifts(_take_slices(expected.weights, sliced), _take_slices(value, sliced), bias,
                          relative_rounding=_rounding_of_weight(scene.evaluator.precision))


def _judged_slices(expected: Expectation, scene: Scene) -> Array:
    """The head slices (B,H) all of whose rows may be judged; layers mix the heads."""
    sliced = np.asarray(expected.claimed.all(axis=-1))
    return sliced & sliced.all(axis=1, keepdims=True) if scene.subject.declaration.kind is Kind.LAYER else sliced


def _declared_error(scene: Scene, run: str, direction: DirectionName) -> float:
    """The systematic error of the subject's class; the scale is part of the temperature alone."""
    # a rounded root is one factor on all logits: a drift of the temperature, and of no other direction
    problem = scene.problem(run)
    width = scene.subject.scale_width(problem) if direction == "temperature" else None
    products = problem.sizes.D if direction in ("temperature", "bias") else 0
    return systematic_error(scene.evaluator.precision, direction, scale_width=width, products=products)


def _rounding_of_weight(precision: Precision) -> float:
    """The roundoff of a weight over that of the output."""
    return DTYPES[precision.weights].roundoff / DTYPES[precision.output].roundoff


def _take_slices(array: Array, sliced: Array) -> Array:
    """The chosen head slices: (B,H,·,·) -> (n,1,·,·)."""
    return np.asarray(array[sliced][:, None])


def _measure_units(units: Units, what: str, limit: float, declared: float) -> Measured:
    statistic, estimate, spread = units.least_statistic(declared), units.estimate, units.standard_error
    sentence = (f"{what} is {estimate:.2g} ± {spread:.1g}, and up to {declared:.2g} is declared: |T| = {statistic:.2f} "
                f"over {units.count} head slices, where {limit:.2f} is allowed")
    return Measured("has_no_drift", sentence, statistic / limit, statistic, limit, estimate, 0.0, (), units.count,
                    units.count, int(statistic > limit), (_reading(units, what),))


def _reading(units: Units, what: str) -> Reading:
    """What was measured, whether or not it is declared."""
    estimate, spread, against_none = units.estimate, units.standard_error, units.statistic()
    sentence = (f"{what}: {estimate:+.1e} ± {spread:.0e} over {units.count} head slices; T = {against_none:+.1f}, "
                f"and without any drift chance gives as much at a rate of at most {significance(against_none):.1g}")
    return Reading(what, estimate, spread, sentence)
