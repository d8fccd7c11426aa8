"""What a probe asks about a past: which keys a query sees, and where it stands."""

from __future__ import annotations

import numpy as np

from attnspec.problems.keyword_arrays import divided
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Reply,
    keyword_question,
    promised,
    shown,
)
from attnspec.questions.masks import band

_KEYS, _PAST = 4, 2
"""T and S of the problems that are asked, and how many of the keys are past."""


def _form(asker: Asker) -> Reply:
    """Of keys that weigh the same."""
    queries = _KEYS - _PAST if asker.subject.declaration.limits.is_step else _KEYS
    seen = asker.output(divided(asker.even(queries, _KEYS), _PAST))[..., :_KEYS]
    is_past = np.arange(_KEYS) < _PAST
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


QUESTIONS = (
    keyword_question("past.form", {
        "all": "past and new ones", "new_only": "new ones only: the past is ignored", "past_only": "past ones only",
        **FAILURES}, _form, promised("all", "past")),
    keyword_question("past.causal", {
        "behind": "query i stands at place P + i", "top_left": "at place i: the past is not counted",
        "from_shape": "at place i + S - T, whatever the past", "twice": "at place 2P + i",
        "everything": "the flag is ignored", **FAILURES}, _causal, promised("behind", "past")),
)
