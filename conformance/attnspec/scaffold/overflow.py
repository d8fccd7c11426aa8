"""A softmax that subtracts no maximum: it is right on what is tried first, and overflows where logits are large."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.core.nouns import DType
from attnspec.problems.problem import LayerProblem
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.probe_problems import expect_usual, plain_problem
from attnspec.scaffold.trial_adapter import Trier

_LARGE_FACTOR = 256.0
"""What takes logits that are near 1 to where exponentials leave float32."""


def warn_of_overflow(form: CallForm, trier: Trier) -> CallForm:
    """The form; with a warning if large queries make its output infinite or not a number, where the definition's is
    finite.
    """
    if form.dtype is DType.FLOAT16:
        return form
    problem = plain_problem(form)
    query = problem.query * problem.query.dtype.type(_LARGE_FACTOR)
    is_one = isinstance(problem, LayerProblem) and form.attends_to_itself  # one input serves for all three
    large = problem.but(query=query, **(dict.fromkeys(("key", "value"), query) if is_one else {}))
    answer = trier.answer(form, large)
    if answer is None or np.isfinite(answer.output).all() or not np.isfinite(expect_usual(form, large).output).all():
        return form
    warning = ("OVERFLOWS: where logits are large, its output is not finite. The softmax seems to subtract no maximum, "
               "or not that of the keys that are seen: attnspec check says what is wrong.")
    return replace(form, warnings=(*form.warnings, warning))
