"""Questions about what is hidden: rows that see nothing, and what stands in a key or value that nobody may see."""

from __future__ import annotations

import contextlib
from functools import partial

import ml_dtypes
import numpy as np

from attnspec.ground.conventions import CONVENTIONS
from attnspec.probing.asker import FAILURES, Asker, Failed, NotAsked, Reply
from attnspec.probing.causal import alignment
from attnspec.probing.fit import is_close, shown, which
from attnspec.probing.question import Question, convention, no_claim
from attnspec.problems.problem import Array, Problem, numpy_dtype

ROW = 1
"""The row that sees nothing."""


def without_row(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with row ROW hidden; every row, where a mask is the same for all."""
    visible = np.arange(4)[:, None] != np.full((4, 4), ROW)
    return _hidden(asker, problem, visible & (asker.has_rows or form != "mask"), form)


def without_last_key(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with its last key hidden; under the causal flag from all rows but the last."""
    if form == "causal":
        return problem.but(causal=True)
    return _hidden(asker, problem, np.arange(4) < np.full((4, 4), 3), form)


def _hidden(asker: Asker, problem: Problem, visible: Array, form: str) -> Problem:
    if form == "mask":
        return problem.but(mask=asker.as_mask(visible, problem))
    least = float(ml_dtypes.finfo(numpy_dtype(asker.dtype)).min) if form == "finfo_min" else -np.inf
    return problem.but(bias=asker.as_bias(np.where(visible, 0.0, least), problem))


def _row(asker: Asker, form: str) -> Reply:
    """Keys do not weigh alike, so that what looks uniform is not what nobody has masked."""
    problem = asker.sloped(4, 4)
    seen = asker.output(without_row(asker, problem, form))
    candidates = {"zeros": np.zeros(4), "uniform": np.full(4, 0.25), "nan": np.full(4, np.nan)}
    with contextlib.suppress(NotAsked, Failed):
        candidates["unmasked"] = asker.output(problem)[:, :, ROW, :4]
    return which(seen[:, :, ROW, :4], candidates)


def _row_under_causal(asker: Asker) -> Reply:
    """Only where the last query sees all keys and there are more queries than keys are there rows that see none."""
    if alignment(asker, 5, 2).answer != "bottom_right":
        raise NotAsked("every query sees a key")
    seen = asker.output(asker.sloped(5, 2).but(causal=True))[:, :, :3, :2]
    return which(seen, {"zeros": np.zeros(2), "uniform": np.full(2, 0.5), "nan": np.full(2, np.nan)})


_POISON = {"nan": np.nan, "inf": np.inf}


def _poisoned(asker: Asker, place: str, content: str, form: str) -> Reply:
    """The last row is not looked at: a layer that attends to its own input has the poison in its query, too."""
    hidden = without_last_key(asker, asker.sloped(4, 4), form)
    right = asker.output(hidden)[:, :, :3, :4]
    array = getattr(hidden, place).copy()
    array[:, :, -1, 0] = _POISON[content]
    seen = asker.output(hidden.but(**{place: array}))[:, :, :3, :4]
    return Reply(_damage(seen, right), shown(seen))


def _damage(seen: Array, right: Array) -> str:
    if is_close(seen, right):
        return "harmless"
    return "nan" if np.isnan(seen).any() else "infinite" if np.isinf(seen).any() else "changed"


_OF_CAUSAL = {**{name: text for name, text in CONVENTIONS["hidden_row"].answers.items() if name != "undefined"},
              **FAILURES}
_ROWS = {**_OF_CAUSAL, "unmasked": "as if nothing were hidden"}
_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "finfo_min": "a bias of the most negative number"}
_HIDING = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}
_DAMAGES = {"harmless": "nothing", "nan": "it turns to NaN", "infinite": "it turns infinite",
            "changed": "it changes", **FAILURES}

QUESTIONS = (
    *(Question(f"hidden_row.{form}", f"What does a query get from which {text} hides every key?", _ROWS,
               partial(_row, form=form), no_claim if form == "finfo_min" else convention("hidden_row", form))
      for form, text in _FORMS.items()),
    Question("hidden_row.causal", "What does a query get that sees no key under the causal flag?", _OF_CAUSAL,
             _row_under_causal, convention("hidden_row", "causal")),
    *(Question(f"hidden_{place}.{content}.{form}",
               f"What does {text} in a {place} that {how} hides do to the visible output?", _DAMAGES,
               partial(_poisoned, place=place, content=content, form=form))
      for place in ("key", "value") for content, text in (("nan", "NaN"), ("inf", "infinity"))
      for form, how in _HIDING.items()),
)
