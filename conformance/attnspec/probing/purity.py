"""Questions about side effects: inputs that change, outputs that are inputs, calls that remember others."""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from attnspec.probing.asker import FAILURES, Asker, Failed, NotAsked, Reply
from attnspec.probing.numbers import normal
from attnspec.probing.question import Question, promised
from attnspec.problems.problem import Problem

NONE = "none"


def _names(asker: Asker, trait: str) -> Reply:
    """One key alone may be handed through; a call with mask or bias has more inputs to change."""
    plain = normal(asker, 4, 4)
    answers = [asker.put(plain)]
    further = (normal(asker, 1, 1), plain.but(mask=asker.as_mask(asker.rows(np.tri(4, dtype=bool)), plain)),
               plain.but(bias=asker.as_bias(np.eye(4), plain)))
    for problem in further:
        with contextlib.suppress(NotAsked, Failed):
            answers.append(asker.put(problem))
    names = sorted({name for answer in answers for name in getattr(answer, trait)})
    return Reply(", ".join(names) or NONE)


def _again(asker: Asker, *, between: bool) -> Reply:
    """The same call twice; in between others of the same shape with other contents, and of another shape."""
    problem = normal(asker, 4, 4)
    first = asker.output(problem)
    for other in _others(asker, problem) if between else ():
        with contextlib.suppress(NotAsked, Failed):
            asker.put(other)
    second = asker.output(problem)
    if np.array_equal(second, first, equal_nan=True):
        return Reply("same")
    return Reply("differs", f"by up to {np.nanmax(np.abs(second - first)):.3g}")


def _others(asker: Asker, problem: Problem) -> tuple[Problem, ...]:
    return problem.but(value=-problem.value), problem.but(query=-problem.query, key=2 * problem.key), asker.even(2, 5)


def _kept(asker: Asker) -> Reply:
    """Whether a later call changes what an earlier one handed back."""
    problem = normal(asker, 4, 4)
    first = asker.put(problem)
    asker.put(problem.but(value=-problem.value))
    assert first.returned is not None  # a call keeps it
    now, then = (array.astype(np.float64) for array in first.returned)
    return Reply("kept" if np.array_equal(now, then, equal_nan=True) else "overwritten")


_SAME = {"same": "the same, bit for bit", "differs": "another one", **FAILURES}
_INPUTS = {NONE: "none", **FAILURES}

def is_steady(asker: Asker) -> bool:
    """Whether the same call gives the same twice. If not, answers are chance, and none can contradict a claim."""
    try:
        return _again(asker, between=False).answer == "same"
    except (NotAsked, Failed):
        return True


TWICE = Question("determinism.twice", "What does the same call give the second time?", _SAME,
                 partial(_again, between=False), promised("same", "purity"))
"""Asked first: it tells what the other answers are worth."""
QUESTIONS = (
    Question("mutated", "Which inputs does a call change?", _INPUTS, partial(_names, trait="mutated"),
             promised(NONE, "purity")),
    Question("aliased", "With which inputs does an output share memory?", _INPUTS, partial(_names, trait="aliases"),
             promised(NONE, "purity")),
    Question("determinism.after_another", "What does it give after calls with other inputs?", _SAME,
             partial(_again, between=True), promised("same", "purity")),
    Question("determinism.kept", "What becomes of an answer when another call is made?",
             {"kept": "it stays", "overwritten": "it is overwritten", **FAILURES}, _kept, promised("kept", "purity")),
)
