"""More words of `then`: conventions and refusals."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED, of_hidden_rows
from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.numerics.expectation import visible_keys
from attnspec.numerics.operands import extra_key, queries_within
from attnspec.problems.problem import Array, Problem
from attnspec.record.outcome import Measured
from attnspec.subjects.subject import SubjectRaised, UnusableAnswer
from attnspec.vocabulary.observables import (
    Observable,
    equal,
    keep,
    measure,
    nothing,
    observe,
    of_run,
    see,
    seen_of,
    verdict,
)
from attnspec.vocabulary.scene import Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, RunName

MUST_SHOW = 2.0
"""A difference of the definitions that is more than so many times both runs' rounding cannot vanish in it."""

ConventionName = Literal["hidden_row", "causal_alignment", "mask_with_causal", "grouped_heads", "beyond_length",
                         "lse_base", "lse_of_hidden_row", "overfull_cache", "used_cache"]


def convention_is(scene: Scene, *, convention: ConventionName) -> Measured:
    """The subject follows the recommended answer of a convention, which is a question on which libraries differ."""
    wanted, found = CONVENTIONS[convention].recommended, scene.conventions.get(convention, UNDEFINED)
    told = ""
    # where a declaration alone would say so, the subject is asked; what it answers stands, if it answers at all
    if found == wanted == scene.subject.declaration.conventions.get(convention):
        asked = scene.evaluator.asked.get(convention, UNDEFINED)
        found, told = (found, ", as declared") if asked == UNDEFINED else (asked, "")
    sentence = f"{convention} is {found!r}{told}; {wanted!r} is recommended"
    return verdict("convention_is", sentence, broken=found != wanted)


def hidden_rows_follow_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A query that sees no key gets what the subject's convention says: zeros, the mean of all values, or NaN."""
    name, problem = "hidden_rows_follow_convention", scene.problem(run)
    empty = np.asarray(~visible_keys(problem, scene.conventions).any(axis=-1)) & queries_within(problem)[:, None]
    answer = of_hidden_rows(scene.conventions, problem.given)
    if answer == UNDEFINED or not empty.any():
        return nothing(name, "every row sees a key" if answer != UNDEFINED else "the convention is undefined")
    output = observe(scene, run, "output").array
    if answer == "uniform":
        return _mean_of_all_values(scene, run, output, empty)
    wanted = np.full_like(output, {"zeros": 0.0, "nan": np.nan}[answer])
    found = equal(name, output, wanted, empty[..., None], what=f"rows that see no key should be {answer}")
    return keep(scene, found, seen_of("output", run, output),
                Side(f"output, {answer} in rows that see no key", run, wanted), (0.0, empty[..., None]))


def rows_beyond_follow_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A row beyond the number of queries of its batch entry holds what the subject declares: zeros, if anything."""
    name, answer = "rows_beyond_follow_convention", scene.conventions.get("beyond_length", UNDEFINED)
    beyond = ~queries_within(scene.problem(run))[:, None, :, None]
    if answer != "zeros" or not beyond.any():
        return nothing(name, "no row lies beyond a length" if answer == "zeros" else "nothing is declared of such rows")
    output = observe(scene, run, "output").array
    wanted = np.zeros_like(output)
    found = equal(name, output, wanted, beyond, what="rows beyond the number of queries should be zeros")
    return keep(scene, found, seen_of("output", run, output), Side("output, zeros beyond the lengths", run, wanted),
                (0.0, beyond))


_OF_HIDDEN = {"minus_infinity": -np.inf, "plus_infinity": np.inf, "zero": 0.0}


def lse_of_hidden_rows_follows_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The log-sum-exp of a row that sees no key, and no sink, is what the subject declares, if anything."""
    name, problem = "lse_of_hidden_rows_follows_convention", scene.problem(run)
    answer = scene.conventions.get("lse_of_hidden_row", UNDEFINED)
    empty = np.asarray(~visible_keys(problem, scene.conventions).any(axis=-1)) & queries_within(problem)[:, None]
    extra = extra_key(problem)
    if extra is not None:
        empty = empty & np.isneginf(extra)[:, None]
    if answer not in _OF_HIDDEN or not empty.any():
        return nothing(name, "no row is fully hidden" if answer in _OF_HIDDEN else "nothing is declared of such rows")
    seen = observe(scene, run, "lse").array
    wanted = np.full_like(seen, _OF_HIDDEN[answer])
    found = equal(name, seen, wanted, empty, what=f"the log-sum-exp of fully hidden rows should be {answer}")
    return keep(scene, found, seen_of("lse", run, seen), Side(f"log-sum-exp, {answer} in hidden rows", run, wanted),
                (0.0, empty), observed="lse")


def _mean_of_all_values(scene: Scene, run: str, output: Array, empty: Array) -> Measured:
    """The output (B,H,T,Dv) on the rows `empty` (B,H,T), against the definition's own answer to a query of zeros that
    sees every key.
    """
    problem: Problem = scene.problem(run)
    zeroed = np.where(empty[..., None], np.zeros_like(problem.query), problem.query)
    shown = visible_keys(problem, scene.conventions) | empty[..., None]
    bias = None if problem.bias is None else np.where(empty[..., None], np.zeros_like(problem.bias), problem.bias)
    all_shown = problem.but(**{**acting_on(Acts.VISIBILITY), "query": zeroed, "mask": shown, "bias": bias})
    expected = scene.evaluator.expect(all_shown, "", "output")
    bound = expected.output_allowance, empty[..., None]
    found = measure("hidden_rows_follow_convention", output, expected.output, *bound,
                    what="rows that see no key should be the mean of all values")
    return keep(scene, found, seen_of("output", run, output),
                Side("output, the mean of all values in rows that see no key", run, expected.output), bound)


def differ(scene: Scene, *, runs: tuple[RunName, RunName], observe: Observable,
           where: Literal["everywhere", "it must show"]) -> Measured:
    """Two runs differ by what the definition says they differ by, within the rounding of both.

    everywhere: all entries are judged.  it must show: only those whose difference is larger than rounding could hide.
    """
    one, two = (see(scene, run, observe) for run in runs)
    due, slack, claimed = one.truth - two.truth, one.allowance + two.allowance, one.claimed & two.claimed
    if where == "it must show":
        claimed = claimed & (np.abs(due) > MUST_SHOW * slack)
    seen = one.array - two.array
    found = measure("differ", seen, due, slack, claimed,
                    what=f"{observe} of {runs[0]} minus that of {runs[1]}, against the difference by definition")
    less = of_run(observe, f"{runs[0]}` minus that of `{runs[1]}", seen)
    return keep(scene, found, Side(less.name, runs[0], seen), Side(f"{less.name}, by definition", runs[0], due),
                (slack, claimed), observed=observe)


def is_refused(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The call raises an exception with a message, instead of returning a wrong answer. An `assert` of the function's
    own code is its message: Python prints the line.
    """
    try:
        scene.answers(scene.runs[run])
    except SubjectRaised as raised:
        return verdict("is_refused", f"the call was refused with {raised}", broken=not raised.says_why)
    except UnusableAnswer as unusable:
        return verdict("is_refused", f"the call was answered, although it makes no sense: {unusable}", broken=True)
    return verdict("is_refused", "the call was answered, although it makes no sense", broken=True)
