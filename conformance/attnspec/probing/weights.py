"""Questions about the weights that come back beside the output."""

from __future__ import annotations

import numpy as np

from attnspec.ground.declaration import Declaration
from attnspec.probing.asker import FAILURES, OTHER, Asker, Failed, Reply
from attnspec.probing.fit import is_close, shown
from attnspec.probing.question import Question, promised
from attnspec.problems.problem import Array, Problem
from attnspec.subjects.subject import Answer

PER_HEAD, AVERAGED = "per_head", "averaged"


def _form(asker: Asker) -> tuple[str, Answer]:
    """How the weights come back, and what came."""
    problem = _problem(asker)
    try:
        return PER_HEAD, asker.without_limits(weights=PER_HEAD).put(problem)
    except Failed:
        return AVERAGED, asker.without_limits(weights=AVERAGED).put(problem)


def _problem(asker: Asker) -> Problem:
    """Each head weighs the keys in its own way; values are the identity, so the output is the weights in effect."""
    problem = asker.sloped(4, 4)
    problem.key[:, -1, :, 0] *= -1
    return problem.but(return_weights=True)


def _heads(asker: Asker) -> Reply:
    form, answer = _form(asker)
    return Reply(form, shown(_weights(answer)))


def _sums(asker: Asker) -> Reply:
    sums = _weights(_form(asker)[1]).sum(axis=-1)
    return Reply("yes" if is_close(sums, np.ones(1)) else "no", f"from {sums.min():.3g} to {sums.max():.3g}")


def _effect(asker: Asker) -> Reply:
    form, answer = _form(asker)
    weights, effective = _weights(answer), answer.output.astype(np.float64)[..., :4]
    effective = effective.mean(axis=1) if form == AVERAGED else effective
    if is_close(weights, effective):
        return Reply("in_effect", shown(weights))
    sums = is_close(weights.sum(axis=-1), np.ones(1)), is_close(effective.sum(axis=-1), np.ones(1))
    name = "before_dropout" if sums == (True, False) else OTHER
    return Reply(name, f"{shown(weights)} came back, {shown(effective)} met the values")


def _weights(answer: Answer) -> Array:
    assert answer.weights is not None  # they were asked for, and the call saw to it
    return answer.weights.astype(np.float64)


def _claim(declaration: Declaration) -> str:
    return declaration.limits.weights if "weights" in declaration.claims else ""


QUESTIONS = (
    Question("weights.heads", "How do the weights come back?", {
        PER_HEAD: "(B,H,T,S)", AVERAGED: "(B,T,S), the mean over the heads", **FAILURES}, _heads, _claim),
    Question("weights.sum", "Do the returned weights of a row sum to 1?", {"yes": "yes", "no": "no", **FAILURES},
             _sums, promised("yes", "weights")),
    Question("weights.effect", "Are the returned weights those that met the values?", {
        "in_effect": "yes, after dropout where there is any", "before_dropout": "no: some were dropped afterwards",
        **FAILURES}, _effect, promised("in_effect", "weights")),
)
