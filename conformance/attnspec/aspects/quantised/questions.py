"""What a probe asks about scales of codes: what they do to the entries of their array."""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.aspects.quantised.keyword import KEYWORDS
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import FAILURES, Asker, Reply, keyword_question, promised, softmax, which

_SCALE = 0.5
_POWERS = {"multiplied": 1, "ignored": 0, "divided": -1, "twice": 2}
"""By answer, the power of the scale that an entry is multiplied by."""


def _ask_scale(asker: Asker, array: str) -> Reply:
    """The plain answer tells the weights, and so the logits up to a constant of the row; all entries are codes."""
    plain = _whole_numbers(asker)
    weights = asker.output(plain)[..., :4]
    scale = np.full(getattr(plain, array).shape, _SCALE, np.float32)
    seen = asker.output(plain.but(**{f"{array}_scale": scale}))[..., :4]
    return which(seen, {name: _expected(weights, array, _SCALE**power) for name, power in _POWERS.items()})


def _whole_numbers(asker: Asker) -> Problem:
    """Queries, keys and values of whole numbers: each storage has codes for them."""
    problem = asker.sloped(4, 4)
    return problem.but(key=2 * problem.key)


def _expected(weights: Array, array: str, factor: float) -> Array:
    """Weights (B,H,T,S) that are read off the output, where the entries of an array are multiplied by a factor."""
    if array == "value":
        return weights * factor
    with np.errstate(all="ignore"):
        logits = np.log(weights)
        return softmax(factor * (logits - logits[..., :1]))


_ANSWERS = {"multiplied": "each entry is multiplied by it", "ignored": "nothing: the scale is ignored",
            "divided": "each entry is divided by it", "twice": "each entry is multiplied by it twice", **FAILURES}

QUESTIONS = tuple(
    keyword_question(f"{word.name}.form", _ANSWERS, partial(_ask_scale, array=word.meaning_of),
                     promised("multiplied", word.name)) for word in KEYWORDS)
