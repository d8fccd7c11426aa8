"""Spec words and questions about slopes: what they add, and from which place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from attnspec.aspects.slopes.mathematics import alibi
from attnspec.core.nouns import DType
from attnspec.numerics.operands import own_places
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Reply,
    declared_convention,
    even_weights,
    keyword_question,
    name_candidate,
    promised_answer,
    softmax_rows,
)
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention


def slopes_as_bias(posed: Attention) -> Attention:
    """Hand slopes over as the bias that they stand for, added to the given one. No claim where the
    dtype does not hold it.
    """
    problem = posed.one
    if problem.alibi_slopes is None:
        raise NoClaim("there are no slopes")
    bias, _ = alibi(problem, own_places(problem, posed.conventions))
    bias = bias if problem.bias is None else bias + problem.bias.astype(np.float64)
    with np.errstate(over="ignore"):
        stored = bias.astype(problem.query.dtype)
    if not np.array_equal(stored.astype(np.float64), bias):
        raise NoClaim("the change is not exact in the dtype")
    return posed.but(alibi_slopes=None, bias=stored)


def with_slopes(posed: Attention, *, to: Literal["zero"]) -> Attention:
    """Hand over slopes of zero."""
    problem = posed.one
    return posed.but(alibi_slopes=keyword_array("alibi_slopes", to, 0, problem.sizes, problem.dtype))


TRANSFORMS = (slopes_as_bias, with_slopes)


_KEYS = 4
"""T and S of the problem that is asked for the form."""

_SLOPES = np.array([1.0, 2.0])
"""Of the first two heads."""


def _sloped_problem(asker: Asker, T: int, S: int) -> Problem:
    """A problem of even logits, so that the weights are those of the bias alone."""
    problem = asker.make_even(T, S)
    number = np.float64 if asker.dtype is DType.FLOAT64 else np.float32
    return problem.but(alibi_slopes=np.resize(_SLOPES, problem.sizes.H).astype(number))


def _weights(slopes: Array, distance: Array) -> Array:
    """The weights (H,T,S) by slopes (H,) or (H,T) and a distance (T,S)."""
    full = slopes[:, None] if slopes.ndim == 1 else slopes
    return softmax_rows(-full[..., None] * distance)


def _form(asker: Asker) -> Reply:
    problem = _sloped_problem(asker, _KEYS, _KEYS)
    seen, slopes = asker.ask_output(problem)[..., :_KEYS], _SLOPES[: problem.sizes.H]
    ahead = np.arange(_KEYS) - np.arange(_KEYS)[:, None]
    far = np.abs(ahead)
    by_row = np.tile(slopes[np.arange(_KEYS) % len(slopes)], (len(slopes), 1))
    return name_candidate(seen, {
        "distance": _weights(slopes, far), "signed": _weights(slopes, -ahead), "raised": _weights(-slopes, far),
        "of_first": _weights(slopes[:1], far), "by_row": _weights(by_row, far),
        "scaled": _weights(slopes / np.sqrt(asker.subject.scale_width(problem)), far),
        "base_two": _weights(slopes * np.log(2), far), "ignored": even_weights(np.ones((_KEYS, _KEYS), bool))})


def _alignment(asker: Asker, T: int, S: int) -> Reply:
    """Asks from where the distance of a query counts."""
    T, S = asker.fit_lengths(T, S)
    problem = _sloped_problem(asker, T, S)
    seen = asker.ask_output(problem)[..., :S]
    slopes = _SLOPES[: seen.shape[1]]  # conventions are asked of one head
    ahead = np.arange(S) - np.arange(T)[:, None]
    candidates = {"top_left": _weights(slopes, np.abs(ahead)),
                  "bottom_right": _weights(slopes, np.abs(ahead - (S - T))),
                  "everything": even_weights(np.ones((T, S), bool))}
    return name_candidate(seen, {name: each[..., :seen.shape[-1]] for name, each in candidates.items()})


_PLACES = {"top_left": "query i stands at place i", "bottom_right": "query i stands at place i + S - T",
           "everything": "the slopes are ignored", **FAILURES}

QUESTIONS = (
    keyword_question("slopes.form", {
        "distance": "-slope·|p - j|", "signed": "slope·(j - p): keys ahead are raised",
        "raised": "+slope·|p - j|", "of_first": "all heads have the slope of the first",
        "by_row": "it is read by row, not by head", "scaled": "the slope is multiplied by the scale first",
        "base_two": "-slope·ln(2)·|p - j|", "ignored": "nothing", **FAILURES},
        _form, promised_answer("distance", "alibi_slopes")),
    keyword_question("slopes.longer_keys", _PLACES, partial(_alignment, T=2, S=5),
             declared_convention("causal_alignment")),
    keyword_question("slopes.longer_queries", _PLACES, partial(_alignment, T=5, S=2),
             declared_convention("causal_alignment")),
)

ALIGNMENTS: Mapping[str, Callable[[Asker, int, int], Reply]] = {"alibi_slopes": _alignment}
"""By keyword, from where it counts a query's own place, of so many queries and keys."""
