"""Questions about what a query sees: the causal flag's diagonal, windows, softcaps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from attnspec.core.keywords import PLACED
from attnspec.problems.problem import Array
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Question,
    Reply,
    convention,
    even,
    is_close,
    promised,
    shown,
    which,
)

_SQUARE = {"past": np.tri(4, dtype=bool), "strict_past": np.tri(4, k=-1, dtype=bool),
           "future": np.tri(4, dtype=bool).T, "everything": np.ones((4, 4), bool)}


def _square(asker: Asker) -> Reply:
    """The first row of a strict past sees nothing, so it is left out."""
    seen = asker.output(asker.even(4, 4).but(causal=True))
    return which(seen[:, :, 1:, :4], {name: even(visible)[1:] for name, visible in _SQUARE.items()})


def alignment(asker: Asker, T: int, S: int, keyword: str = "causal") -> Reply:
    """The diagonal of the causal flag, or of another keyword that hides later keys. Rows that see no key may hold
    anything.
    """
    T, S = asker.lengths(T, S)
    seen = asker.output(asker.even(T, S).but(**{keyword: PLACED[keyword]}))[..., :S]
    bands = {"top_left": np.tri(T, S, dtype=bool), "bottom_right": np.tri(T, S, S - T, dtype=bool),
             "everything": np.ones((T, S), bool)}
    return Reply(band(seen, bands), shown(seen))


def band(weights: Array, bands: Mapping[str, Array]) -> str:
    """The first of the bands (T,S) whose rows the weights are spread evenly over; rows that see nothing may be
    anything. weights: (B,H,T,S), or those of the first keys.
    """
    def fits(visible: Array) -> bool:
        """Whether the weights are spread evenly over what is visible (T,S)."""
        sees = visible.any(axis=1)
        return is_close(weights[:, :, sees], even(visible[sees])[:, :weights.shape[-1]])

    return next((name for name, visible in bands.items() if fits(visible)), OTHER)


_ALIGNED = {"top_left": "query i sees keys 0 … i", "bottom_right": "query i sees keys 0 … i + S - T",
            "everything": "the flag is ignored", **FAILURES}

CAUSAL_QUESTIONS = (
    Question("causal.square", "Which keys does query i see under the causal flag, where T = S?", {
        "past": "keys 0 … i", "strict_past": "keys 0 … i - 1", "future": "keys i … S - 1",
        "everything": "all keys: the flag is ignored", **FAILURES}, _square, promised("past")),
    Question("causal_alignment.longer_keys", "Along which diagonal does the causal mask lie if T < S?", _ALIGNED,
             partial(alignment, T=2, S=5), convention("causal_alignment")),
    Question("causal_alignment.longer_queries", "Along which diagonal does the causal mask lie if T > S?", _ALIGNED,
             partial(alignment, T=5, S=2), convention("causal_alignment")),
)
