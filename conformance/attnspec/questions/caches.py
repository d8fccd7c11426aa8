"""Questions about decoding: keys and values of earlier calls."""

from __future__ import annotations

import numpy as np

from attnspec.core.keywords import KEYWORDS
from attnspec.problems.caches import divided
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Question,
    Reply,
    promised,
    shown,
)
from attnspec.questions.visibility import band

ALL, PAST = 4, 2
"""T and S of the problems that are asked, and how many of the keys are past."""

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


CACHE_QUESTIONS = (
    Question("past.form", _asks("past.form"), {
        "all": "past and new ones", "new_only": "new ones only: the past is ignored", "past_only": "past ones only",
        **FAILURES}, _form, promised("all", "past")),
    Question("past.causal", _asks("past.causal"), {
        "behind": "query i stands at place P + i", "top_left": "at place i: the past is not counted",
        "from_shape": "at place i + S - T, whatever the past", "twice": "at place 2P + i",
        "everything": "the flag is ignored", **FAILURES}, _causal, promised("behind", "past")),
)
