"""More words of `then`: conventions, refusals, and the paper's variance argument."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np

from attnspec.ground.conventions import CONVENTIONS, UNDEFINED
from attnspec.numerics.expectation import visible_keys
from attnspec.problems.problem import Array, Problem
from attnspec.record.outcome import Measured
from attnspec.subjects.subject import SubjectRaised, UnusableAnswer
from attnspec.vocabulary.measure import equal, measure, nothing, verdict
from attnspec.vocabulary.observables import observe, see
from attnspec.vocabulary.scene import Scene
from attnspec.vocabulary.signature import ORIGINAL, Between, RunName

ConventionName = Literal["hidden_row", "causal_alignment", "mask_with_causal", "grouped_heads"]


def convention_is(scene: Scene, *, convention: ConventionName) -> Measured:
    """The subject follows the recommended answer of a convention on which practice is divided."""
    wanted, found = CONVENTIONS[convention].recommended, scene.conventions.get(convention, UNDEFINED)
    return verdict("convention_is", f"{convention} is {found!r}; {wanted!r} is recommended", broken=found != wanted)


def hidden_rows_follow_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A query that may attend to no key gets what the subject's convention says: zeros, the mean of all, or NaN."""
    name, problem = "hidden_rows_follow_convention", scene.problem(run)
    empty = np.asarray(~visible_keys(problem, scene.conventions).any(axis=-1))
    answer = _answer_for_hidden_rows(scene, problem)
    if answer == UNDEFINED or not empty.any():
        return nothing(name, "no row is fully hidden" if answer != UNDEFINED else "the convention is undefined")
    output = observe(scene, run, "output").array[empty]
    if answer == "uniform":
        return _mean_of_all_values(scene, problem, output, empty)
    wanted = np.full_like(output, {"zeros": 0.0, "nan": np.nan}[answer])
    return equal(name, output, wanted, what=f"fully hidden rows should be {answer}")


def _answer_for_hidden_rows(scene: Scene, problem: Problem) -> str:
    """The convention, for the form that hides keys here where the subject's answers differ by form."""
    forms = {"mask": problem.mask is not None, "bias": problem.bias is not None, "causal": problem.causal}
    form = next((form for form, is_used in forms.items() if is_used), "")
    return scene.conventions.get(f"hidden_row.{form}", scene.conventions.get("hidden_row", UNDEFINED))


def _mean_of_all_values(scene: Scene, problem: Problem, output: Array, empty: Array) -> Measured:
    """The definition's own answer to a query of zeros that sees every key."""
    zeroed = np.where(empty[..., None], np.zeros_like(problem.query), problem.query)
    shown = visible_keys(problem, scene.conventions) | empty[..., None]
    bias = None if problem.bias is None else np.where(empty[..., None], np.zeros_like(problem.bias), problem.bias)
    expected = scene.bench.expect(problem.but(query=zeroed, mask=shown, bias=bias, causal=False), "", "output", None)
    return measure("hidden_rows_follow_convention", output, expected.output[empty], expected.output_allowance[empty],
                   np.ones(output.shape, bool), what="fully hidden rows should be the mean of all values")


def is_refused(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The call raises, with a message, rather than return a wrong answer."""
    try:
        scene.answers(scene.runs[run])
    except SubjectRaised as raised:
        is_mute = ": " not in str(raised)  # the exception's type alone
        return verdict("is_refused", f"the call was refused with {raised}", broken=is_mute)
    except UnusableAnswer as unusable:
        return verdict("is_refused", f"the call was answered, although it makes no sense: {unusable}", broken=True)
    return verdict("is_refused", "the call was answered, although it makes no sense", broken=True)


def has_variance(scene: Scene, *, value: Literal["one", "d_k"], false_alarm: Annotated[float, Between(1e-15, 0.5)],
                 run: RunName = ORIGINAL) -> Measured:
    """Logits of independent standard-normal queries and keys have this variance, at a stated rate of false alarms.

    Given a query q, the sum over keys of (s - mean)^2 d_k / |q|^2 is chi-squared with S - 1 degrees of freedom for
    logits s = q·k / sqrt(d_k), exactly, when every query has keys of its own; the sums of independent queries add.
    The tails are bounded by Chernoff's inequality, so that the rate holds at every size.
    """
    seen, problem = see(scene, run, "logits"), scene.problem(run)
    if not seen.claimed.all():
        return nothing("has_variance", "some weights are too small to read their logits")
    width = problem.sizes.D
    norms = np.square(problem.query.astype(np.float64)).sum(axis=-1)
    law = norms / width if value == "one" else norms
    pivot = float((np.square(_centred(seen.array)).sum(axis=-1) / law).sum())
    freedom = seen.array[..., 1:].size
    misread = float((np.square(seen.allowance).sum(axis=-1) / law).sum())
    what = f"at d_k = {width} the variance of the logits, over the variance it should have"
    return _variance(pivot / freedom, misread / freedom, freedom, false_alarm, what)


def _centred(logits: Array) -> Array:
    return np.asarray(logits - logits.mean(axis=-1, keepdims=True), dtype=np.float64)


def _variance(ratio: float, misread: float, freedom: int, false_alarm: float, what: str) -> Measured:
    spread = 2 * math.sqrt(ratio * misread) + misread
    low, high = (chernoff(freedom, false_alarm / 2, side) for side in (-1, 1))
    allowance = spread + (high - 1 if ratio > 1 else 1 - low)
    return measure("has_variance", np.array(ratio), np.array(1.0), allowance, np.ones((), bool), what=what)


def chernoff(freedom: int, rate: float, side: Literal[-1, 1]) -> float:
    """The ratio r, above 1 (side 1) or below (side -1), beyond which chi-squared/freedom lies with probability <= rate.

    P(X >= n r) <= exp(-n (r - 1 - ln r) / 2) for r > 1, and the same on the other side for r < 1.
    """
    target = -2 * math.log(rate) / freedom
    near, far = 1.0, (1e-300 if side < 0 else 2 + 2 * target)
    for _ in range(200):
        middle = (near + far) / 2
        near, far = (middle, far) if middle - 1 - math.log(middle) < target else (near, middle)
    return far
