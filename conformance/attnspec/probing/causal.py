"""Questions about the causal flag: which diagonal bounds what a query sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from attnspec.probing.asker import FAILURES, OTHER, Asker, Reply
from attnspec.probing.fit import even, is_close, shown, which
from attnspec.probing.question import Question, convention, promised
from attnspec.problems.problem import Array

_SQUARE = {"past": np.tri(4, dtype=bool), "strict_past": np.tri(4, k=-1, dtype=bool),
           "future": np.tri(4, dtype=bool).T, "everything": np.ones((4, 4), bool)}


def _square(asker: Asker) -> Reply:
    """The first row of a strict past sees nothing, so it is left out."""
    seen = asker.output(asker.even(4, 4).but(causal=True))
    return which(seen[:, :, 1:, :4], {name: even(visible)[1:] for name, visible in _SQUARE.items()})


def alignment(asker: Asker, T: int, S: int) -> Reply:
    """Rows that see no key may hold anything."""
    seen = asker.output(asker.even(T, S).but(causal=True))[..., :S]
    bands = {"top_left": np.tri(T, S, dtype=bool), "bottom_right": np.tri(T, S, S - T, dtype=bool),
             "everything": np.ones((T, S), bool)}
    return Reply(band(seen, bands), shown(seen))


def band(weights: Array, bands: Mapping[str, Array]) -> str:
    """The first of the bands whose rows are spread evenly over what they see; rows that see nothing may be anything."""
    def fits(visible: Array) -> bool:
        sees = visible.any(axis=1)
        return is_close(weights[:, :, sees], even(visible[sees]))

    return next((name for name, visible in bands.items() if fits(visible)), OTHER)


_ALIGNED = {"top_left": "query i sees keys 0 … i", "bottom_right": "query i sees keys 0 … i + S - T",
            "everything": "the flag is ignored", **FAILURES}

QUESTIONS = (
    Question("causal.square", "Which keys does query i see under the causal flag, where T = S?", {
        "past": "keys 0 … i", "strict_past": "keys 0 … i - 1", "future": "keys i … S - 1",
        "everything": "all: the flag is ignored", **FAILURES}, _square, promised("past")),
    Question("causal_alignment.longer_keys", "Which diagonal bounds the causal mask where T < S?", _ALIGNED,
             partial(alignment, T=2, S=5), convention("causal_alignment")),
    Question("causal_alignment.longer_queries", "Which diagonal bounds the causal mask where T > S?", _ALIGNED,
             partial(alignment, T=5, S=2), convention("causal_alignment")),
)
