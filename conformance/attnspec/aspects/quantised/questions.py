"""A probe asks here what scales and zero points do to the entries of their array."""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.aspects.quantised.arrays import GLOBALS, NAMES, ZEROS
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Reply,
    keyword_question,
    name_candidate,
    promised_answer,
    softmax_rows,
)

_SCALE = 0.5
_POWERS = {"multiplied": 1, "ignored": 0, "divided": -1, "twice": 2}
"""By answer, the power of the scale that an entry is multiplied by."""


def _ask_scale(asker: Asker, keyword: str, array: str) -> Reply:
    """The plain answer tells the weights, and so the logits up to a constant of the row."""
    plain = _whole_numbers(asker)
    weights = asker.ask_output(plain)[..., :4]
    scale = np.full(getattr(plain, array).shape, _SCALE, np.float32)
    output = asker.ask_output(plain.but(**{keyword: scale}))[..., :4]
    expected = {name: _expect_weights(weights, array, _SCALE**power) for name, power in _POWERS.items()}
    return name_candidate(output, expected)


def _whole_numbers(asker: Asker) -> Problem:
    """Queries, keys and values of whole numbers: each storage has codes for them."""
    problem = asker.make_sloped(4, 4)
    return problem.but(key=2 * problem.key)


def _expect_weights(weights: Array, array: str, factor: float) -> Array:
    """Weights (B,H,T,S), as the output shows them, if an array is multiplied by a factor."""
    if array == "value":
        return weights * factor
    with np.errstate(all="ignore"):
        logits = np.log(weights)
        return softmax_rows(factor * (logits - logits[..., :1]))


_ANSWERS = {"multiplied": "each entry is multiplied by it", "ignored": "nothing: the scale is ignored",
            "divided": "each entry is divided by it", "twice": "each entry is multiplied by it twice", **FAILURES}

_TAKEN_OFF = {"taken off": 1.0, "ignored": 0.0, "added": -1.0, "twice": 2.0}
"""By answer, how many times the zero point is subtracted."""


def _ask_zero(asker: Asker, array: str) -> Reply:
    """Zero points of 1 move outputs; of keys the last alone has one: a common one moves none."""
    plain = _whole_numbers(asker)
    zero = np.ones(getattr(plain, array).shape, np.float32)
    if array == "key":
        zero[:, :, :-1] = 0
    output = asker.ask_output(plain.but(**{f"{array}_zero": zero}))[..., :4]
    expected = {name: _move_output(asker, plain, array, times * zero)[..., :4] for name, times in _TAKEN_OFF.items()}
    return name_candidate(output, expected)


def _move_output(asker: Asker, plain: Problem, array: str, zero: Array) -> Array:
    """The output (B,H,T,Dv) if this is subtracted from an array of the same shape."""
    entries = {name: getattr(plain, name).astype(np.float64) for name in ("query", "key", "value")}
    entries[array] = entries[array] - zero
    group = plain.query.shape[1] // plain.key.shape[1]
    key, value = (np.repeat(entries[name], group, axis=1) for name in ("key", "value"))
    factor = 1 / np.sqrt(asker.subject.scale_width(plain))
    return np.asarray(softmax_rows(factor * entries["query"] @ key.swapaxes(-1, -2)) @ value)


_ZERO_ANSWERS = {"taken off": "it is taken off of each entry", "ignored": "nothing: the zero point is ignored",
                 "added": "it is added to each entry", "twice": "it is taken off twice", **FAILURES}

QUESTIONS = (
    *(keyword_question(f"{keyword}.form", _ANSWERS, partial(_ask_scale, keyword=keyword, array=array),
                       promised_answer("multiplied", keyword)) for keyword, array in {**NAMES, **GLOBALS}.items()),
    *(keyword_question(f"{keyword}.form", _ZERO_ANSWERS, partial(_ask_zero, array=array),
                       promised_answer("taken off", keyword)) for keyword, array in ZEROS.items()))
