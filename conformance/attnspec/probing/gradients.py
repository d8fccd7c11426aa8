"""Questions about gradients: do they come back, and does anything flow to what is hidden?"""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.probing.asker import FAILURES, Asker, NotAsked, Reply
from attnspec.probing.hidden import ROW, without_last_key, without_row
from attnspec.probing.numbers import normal
from attnspec.probing.question import Question
from attnspec.problems.problem import Array, Problem

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
    found = _given(asker, problem, np.arange(4) < 3)
    of_key = found if asker.subject.declaration.limits.self_attention_only else found[1:]
    largest = max(float(np.abs(each[..., -1, :]).max()) for each in of_key)
    return Reply("nan" if np.isnan(largest) else "nonzero" if largest else "zero", f"up to {largest:.3g}")


def _hidden_row(asker: Asker, form: str) -> Reply:
    """The gradients of the rows that see something, where another sees nothing."""
    if form == "mask" and not asker.has_rows:
        raise NotAsked("its queries share one mask")
    found = _given(asker, without_row(asker, normal(asker, 4, 4), form), np.arange(4) != ROW)
    names = [name for name, each in zip(("query", "key", "value"), found, strict=True) if not np.isfinite(each).all()]
    return Reply("nan" if names else "finite", f"not finite: {', '.join(names)}" if names else "")


def _given(asker: Asker, problem: Problem, rows: Array) -> tuple[Array, ...]:
    found = asker.gradients(problem, rows)
    if found is None:
        raise NotAsked("it computes without gradients")
    return found


_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}

QUESTIONS = (
    Question("gradient.flow", "Does the output have a gradient?", {YES: "yes", NO: "no", **FAILURES}, _flow),
    *(Question(f"gradient.hidden_key.{form}",
               f"What is the gradient of the visible output with respect to a key and value that {text} hides?",
               {"zero": "zero", "nan": "NaN", "nonzero": "it is not zero", **FAILURES}, partial(_hidden_key, form=form))
      for form, text in _FORMS.items()),
    *(Question(f"gradient.hidden_row.{form}",
               f"Are the gradients of the other rows numbers, where {_FORMS[form]} hides every key from one?",
               {"finite": "yes", "nan": "no", **FAILURES}, partial(_hidden_row, form=form))
      for form in ("mask", "bias")),
)
