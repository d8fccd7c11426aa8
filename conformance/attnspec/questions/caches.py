"""Questions about decoding: keys and values of earlier calls, and slopes."""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.problems.caches import divided
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Question,
    Reply,
    convention,
    even,
    promised,
    shown,
    softmax,
    which,
)
from attnspec.questions.visibility import band

ALL, PAST = 4, 2
"""T and S of the problems that are asked, and how many of the keys are past."""

_SLOPES = np.array([1.0, 2.0])
"""Of the first two heads."""


def _asks(name: str) -> str:
    """What is asked stands in the keyword's definition."""
    return next(word.questions[name] for word in KEYWORDS.values() if name in word.questions)


def _form(asker: Asker) -> Reply:
    """Of keys that weigh the same."""
    queries = ALL - PAST if asker.subject.declaration.limits.is_step else ALL
    seen = asker.output(divided(asker.even(queries, ALL), PAST))[..., :ALL]
    is_past = np.arange(ALL) < PAST
    return Reply(band(seen, {name: np.tile(visible, (queries, 1)) for name, visible in {
        "all": is_past | True, "new_only": ~is_past, "past_only": is_past}.items()}), shown(seen))


def _causal(asker: Asker) -> Reply:
    """Of more new keys than queries, so that every place that is thought of is another one."""
    past = 2
    T, S = (2, 4) if asker.subject.declaration.limits.is_step else (2, 7)
    seen = asker.output(divided(asker.even(T, S), past).but(causal=True))[..., :S]
    shifts = {"behind": past, "top_left": 0, "from_shape": S - T, "twice": 2 * past}
    bands = {name: np.tri(T, S, shift, dtype=bool) for name, shift in shifts.items()}
    return Reply(band(seen, {**bands, "everything": np.ones((T, S), bool)}), shown(seen))


def _sloped(asker: Asker, T: int, S: int) -> Problem:
    """Of even logits, so that the weights are those of the bias alone."""
    problem = asker.even(T, S)
    number = np.float64 if asker.dtype is DType.FLOAT64 else np.float32
    return problem.but(alibi_slopes=np.resize(_SLOPES, problem.sizes.H).astype(number))


def _weights(slopes: Array, distance: Array) -> Array:
    """(H,T,S) of slopes (H,) or (H,T) and a distance (T,S)."""
    full = slopes[:, None] if slopes.ndim == 1 else slopes
    return softmax(-full[..., None] * distance)


def _slope_form(asker: Asker) -> Reply:
    problem = _sloped(asker, ALL, ALL)
    seen, slopes = asker.output(problem)[..., :ALL], _SLOPES[: problem.sizes.H]
    ahead = np.arange(ALL) - np.arange(ALL)[:, None]
    far = np.abs(ahead)
    by_row = np.tile(slopes[np.arange(ALL) % len(slopes)], (len(slopes), 1))
    return which(seen, {
        "distance": _weights(slopes, far), "signed": _weights(slopes, -ahead), "raised": _weights(-slopes, far),
        "of_first": _weights(slopes[:1], far), "by_row": _weights(by_row, far),
        "scaled": _weights(slopes / np.sqrt(asker.subject.scale_width(problem)), far),
        "base_two": _weights(slopes * np.log(2), far), "ignored": even(np.ones((ALL, ALL), bool))})


def slope_alignment(asker: Asker, T: int, S: int) -> Reply:
    """From where the distance of a query counts."""
    T, S = asker.lengths(T, S)
    problem = _sloped(asker, T, S)
    seen = asker.output(problem)[..., :S]
    slopes = _SLOPES[: seen.shape[1]]  # conventions are asked of one head
    ahead = np.arange(S) - np.arange(T)[:, None]
    candidates = {"top_left": _weights(slopes, np.abs(ahead)),
                  "bottom_right": _weights(slopes, np.abs(ahead - (S - T))),
                  "everything": even(np.ones((T, S), bool))}
    return which(seen, {name: each[..., :seen.shape[-1]] for name, each in candidates.items()})


_PLACES = {"top_left": "query i stands at place i", "bottom_right": "query i stands at place i + S - T",
           "everything": "the slopes are ignored", **FAILURES}

CACHE_QUESTIONS = (
    Question("past.form", _asks("past.form"), {
        "all": "past and new ones", "new_only": "new ones only: the past is ignored", "past_only": "past ones only",
        **FAILURES}, _form, promised("all", "past")),
    Question("past.causal", _asks("past.causal"), {
        "behind": "query i stands at place P + i", "top_left": "at place i: the past is not counted",
        "from_shape": "at place i + S - T, whatever the past", "twice": "at place 2P + i",
        "everything": "the flag is ignored", **FAILURES}, _causal, promised("behind", "past")),
    Question("slopes.form", _asks("slopes.form"), {
        "distance": "-slope·|p - j|", "signed": "slope·(j - p): keys ahead are raised",
        "raised": "+slope·|p - j|", "of_first": "all heads have the slope of the first",
        "by_row": "it is read by row, not by head", "scaled": "the slope is multiplied by the scale first",
        "base_two": "-slope·ln(2)·|p - j|", "ignored": "nothing", **FAILURES},
        _slope_form, promised("distance", "alibi_slopes")),
    Question("slopes.longer_keys", _asks("slopes.longer_keys"), _PLACES, partial(slope_alignment, T=2, S=5),
             convention("causal_alignment")),
    Question("slopes.longer_queries", _asks("slopes.longer_queries"), _PLACES, partial(slope_alignment, T=5, S=2),
             convention("causal_alignment")),
)
