"""Questions about what comes back beside the output (weights, gradients) and about side effects."""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    is_close,
    promised,
    shown,
)
from attnspec.questions.masks import ROW, without_last_key, without_row
from attnspec.questions.numbers import normal
from attnspec.subjects.subject import SubjectAnswer

PER_HEAD, AVERAGED = "per_head", "averaged"


def _form(asker: Asker) -> tuple[str, SubjectAnswer]:
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
    return Reply(name, f"{shown(weights)} was returned, {shown(effective)} was applied to the values")


def _weights(answer: SubjectAnswer) -> Array:
    """The weights that came back, (B,H,T,S) or averaged (B,T,S), in float64."""
    assert answer.weights is not None  # they were asked for, and the call saw to it
    return answer.weights.astype(np.float64)


def _claim(declaration: Declaration) -> str:
    return declaration.limits.weights if "weights" in declaration.claims else ""


WEIGHT_QUESTIONS = (
    Question("weights.heads", "Which shape do the returned weights have?", {
        PER_HEAD: "(B,H,T,S)", AVERAGED: "(B,T,S), the mean over the heads", **FAILURES}, _heads, _claim),
    Question("weights.sum", "Do the returned weights of a row sum to 1?", {"yes": "yes", "no": "no", **FAILURES},
             _sums, promised("yes", "weights")),
    Question("weights.effect", "Are the returned weights the ones that the values are multiplied by?", {
        "in_effect": "yes, after dropout if there is any",
        "before_dropout": "no: dropout was applied to them afterwards",
        **FAILURES}, _effect, promised("in_effect", "weights")),
)


YES, NO = "yes", "no"
_ALL = np.ones(4, bool)


def _flow(asker: Asker) -> Reply:
    found = asker.gradients(normal(asker, 4, 4), _ALL)
    return Reply(YES if found else NO, "; ".join(f"up to {np.abs(each).max():.3g}" for each in found or ()))


def _hidden_key(asker: Asker, form: str) -> Reply:
    """The rows that do not see the last key. A layer that attends to its own input has but one gradient; what the last
    row, as a query, contributes to it is left out with that row.
    """
    problem = without_last_key(asker, normal(asker, 4, 4), form)
    found = _gradients_of_rows(asker, problem, np.arange(4) < 3)
    of_key = found if asker.subject.declaration.limits.self_attention_only else found[1:]
    largest = max(float(np.abs(each[..., -1, :]).max()) for each in of_key)
    return Reply("nan" if np.isnan(largest) else "nonzero" if largest else "zero", f"up to {largest:.3g}")


def _hidden_row(asker: Asker, form: str) -> Reply:
    """The gradients of the rows that see something, where another sees nothing."""
    if form == "mask" and not asker.has_rows:
        raise NotAsked("its queries share one mask")
    found = _gradients_of_rows(asker, without_row(asker, normal(asker, 4, 4), form), np.arange(4) != ROW)
    names = [name for name, each in zip(("query", "key", "value"), found, strict=True) if not np.isfinite(each).all()]
    return Reply("nan" if names else "finite", f"not finite: {', '.join(names)}" if names else "")


def _gradients_of_rows(asker: Asker, problem: Problem, rows: Array) -> tuple[Array, ...]:
    """The gradients of the rows that are True in `rows` (T,), as (B,H,T,D). Raises NotAsked where there are none."""
    found = asker.gradients(problem, rows)
    if found is None:
        raise NotAsked("it computes without gradients")
    return found


_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}

GRADIENT_QUESTIONS = (
    Question("gradient.flow", "Does the output have a gradient?", {YES: "yes", NO: "no", **FAILURES}, _flow),
    *(Question(f"gradient.hidden_key.{form}",
               f"What is the gradient with respect to a key and value that {text} masks for the queries in question?",
               {"zero": "zero", "nan": "NaN", "nonzero": "it is not zero", **FAILURES}, partial(_hidden_key, form=form))
      for form, text in _FORMS.items()),
    *(Question(f"gradient.hidden_row.{form}",
               f"If {_FORMS[form]} masks all keys of one query, are the gradients of the other rows finite?",
               {"finite": "yes", "nan": "no", **FAILURES}, partial(_hidden_row, form=form))
      for form in ("mask", "bias")),
)


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


def _answer_stays(asker: Asker) -> Reply:
    """Whether a later call changes what an earlier one handed back."""
    problem = normal(asker, 4, 4)
    first = asker.put(problem)
    asker.put(problem.but(value=-problem.value))
    return Reply("kept" if first.is_kept() else "overwritten")


_SAME = {"same": "yes, bit for bit", "differs": "no", **FAILURES}
_INPUTS = {NONE: "none", **FAILURES}

def is_steady(asker: Asker) -> bool:
    """Whether the same call gives the same twice. If not, answers are chance, and none can contradict a claim."""
    try:
        return _again(asker, between=False).answer == "same"
    except (NotAsked, Failed):
        return True


TWICE = Question("determinism.twice", "Does the same call give the same output the second time?", _SAME,
                 partial(_again, between=False), promised("same", "purity"))
"""Asked first: it tells what the other answers are worth."""
PURITY_QUESTIONS = (
    Question("mutated", "Which inputs does a call change?", _INPUTS, partial(_names, trait="mutated"),
             promised(NONE, "purity")),
    Question("aliased", "With which inputs does an output share memory?", _INPUTS, partial(_names, trait="aliases"),
             promised(NONE, "purity")),
    Question("determinism.after_another", "Does the same call give the same output after calls with other inputs?",
             _SAME, partial(_again, between=True), promised("same", "purity")),
    Question("determinism.kept", "Does a later call change the array that an earlier call returned?",
             {"kept": "no", "overwritten": "yes, it is overwritten", **FAILURES},
             _answer_stays, promised("kept", "purity")),
)
