"""A spec word and questions about log-sum-exps: their base, and rows that see no key."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    OTHER,
    Asker,
    NotAsked,
    Reply,
    convention_answers,
    declared_convention,
    is_close,
    keyword_question,
)
from attnspec.questions.inputs import HIDDEN_ROW, hide_row
from attnspec.vocabulary.transforms.axes import Attention


def ask_lse(posed: Attention) -> Attention:
    """Ask for the log-sum-exp, too."""
    return posed.but(return_lse=True)


TRANSFORMS = (ask_lse,)


_KEYS = 4
"""T and S of the problems that are asked."""


def _lse(asker: Asker, problem: Problem) -> Array:
    """The log-sum-exp (B,H,T), in float64."""
    answer = asker.ask(problem.but(return_lse=True))
    assert answer.lse is not None  # it was asked for
    return answer.lse.astype(np.float64)


def lse_base(asker: Asker) -> Reply:
    """Asks for the base: the log-sum-exp of equal weights is the logarithm of their number."""
    problem = asker.make_even_near(_KEYS, _KEYS)
    seen, S = _lse(asker, problem), problem.sizes.S
    numbers = {"natural": np.log(S), "two": np.log2(S)}
    fits = (name for name, number in numbers.items() if is_close(seen, np.full_like(seen, number)))
    return Reply(next(fits, OTHER), f"{seen.flat[0]:.6g}")


def lse_of_hidden_row(asker: Asker) -> Reply:
    """Asks for a row that is hidden in the first way that the subject takes."""
    taken = asker.subject.declaration.keywords
    form = next((name for name in ("mask", "bias", "key_lengths") if name in taken), "")
    if not form:
        raise NotAsked("nothing hides all keys of a row")
    problem = asker.make_even_near(_KEYS, _KEYS)
    seen = _lse(asker, hide_row(asker, problem, form))[:, :, min(HIDDEN_ROW, problem.sizes.T - 1)]
    numbers = {"minus_infinity": -np.inf, "plus_infinity": np.inf, "zero": 0.0}
    fits = (name for name, number in numbers.items() if (seen == number).all())
    return Reply(next(fits, "unspecified"), f"{seen.flat[0]:.6g}")


QUESTIONS = (
    keyword_question("lse.form", convention_answers("lse_base"), lse_base, declared_convention("lse_base")),
    keyword_question("lse.hidden_row", convention_answers("lse_of_hidden_row"), lse_of_hidden_row,
                     declared_convention("lse_of_hidden_row")),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {
    "lse_base": lse_base, "lse_of_hidden_row": lse_of_hidden_row}
"""By convention, what finds out what a subject does."""
