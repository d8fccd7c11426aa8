"""Questions about what a query sees: the causal flag's diagonal, windows, softcaps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from attnspec.core.keywords import KEYWORDS, PLACED, Window
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Ask,
    Asker,
    Claim,
    NotAsked,
    Question,
    Reply,
    convention,
    even,
    is_close,
    promised,
    shown,
    softmax,
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


_MOST = 2
"""How many keys the narrowest window reaches to a side, at the most, of those that fit the problems here."""
_CAP = 2.0


def _window(asker: Asker) -> Window:
    """The narrowest that it takes, one-sided if it takes one."""
    limits = asker.subject.declaration.limits
    left = max(1, limits.min_window)
    if left > _MOST:
        raise NotAsked(f"its windows reach at least {left} keys")
    both = limits.window_is_symmetric and not limits.brings("window")
    return left, left if both else limits.min_window


def _posed(asker: Asker, T: int, S: int) -> Problem:
    needs_causal = bool(asker.subject.declaration.limits.brings("window"))
    return asker.even(T, S).but(window=_window(asker), causal=needs_causal)


def _expected_window(asker: Asker, T: int, S: int, shift: int = 0, *, more: int = 0) -> Array:
    """(T,S): what a query sees whose place is shifted, and whose window reaches further on either side that it has."""
    left, right = _window(asker)
    assert left is not None  # `_window` makes two numbers
    assert right is not None
    far = np.arange(S) - np.arange(T)[:, None] - shift
    ends = 0 if asker.subject.declaration.limits.brings("window") else right + more * bool(right)
    return np.asarray((far >= -left - more) & (far <= ends))


def _reach(asker: Asker) -> Reply:
    seen = asker.output(_posed(asker, 5, 5))[..., :5]
    bands = {"as_asked": _expected_window(asker, 5, 5), "one_less": _expected_window(asker, 5, 5, more=-1),
             "one_more": _expected_window(asker, 5, 5, more=1), "past": np.tri(5, dtype=bool),
             "everything": np.ones((5, 5), bool)}
    return Reply(band(seen, bands), shown(seen))


def _alignment(asker: Asker, T: int, S: int) -> Reply:
    seen = asker.output(_posed(asker, T, S))[..., :S]
    return Reply(band(seen, _aligned(asker, T, S)), shown(seen))


def _aligned(asker: Asker, T: int, S: int) -> Mapping[str, Array]:
    """What each query sees, (T,S), under each alignment of its own place, and where the window is ignored."""
    return {"top_left": _expected_window(asker, T, S), "bottom_right": _expected_window(asker, T, S, S - T),
            "everything": np.ones((T, S), bool)}


def _row(asker: Asker) -> Reply:
    """More queries than keys: some of them see none."""
    name = _alignment(asker, 5, 2).answer
    visible = _aligned(asker, 5, 2).get(name)
    empty = visible is None or ~visible.any(axis=1)
    if visible is None or not np.any(empty):
        raise NotAsked("every query sees a key")
    problem = asker.sloped(5, 2)
    seen = asker.output(_posed(asker, 5, 2).but(query=problem.query, key=problem.key))[:, :, empty, :2]
    return which(seen, {"zeros": np.zeros(2), "uniform": np.full(2, 0.5), "nan": np.full(2, np.nan)})


def _softcap(asker: Asker, *, with_bias: bool) -> Reply:
    """The plain answer tells the logits, up to a constant that the slope makes 0."""
    plain, bias = _steep(asker), np.tile([0.0, 3.0, 0.0, 0.0], (4, 1))
    with np.errstate(all="ignore"):
        logits = np.log(asker.output(plain)[:1, :1, :, :4])
        logits = logits - logits[..., :1]
    added = bias if with_bias else 0.0
    posed = plain.but(softcap=_CAP, bias=asker.as_bias(bias, plain) if with_bias else None)
    seen = asker.output(posed)[..., :4]
    return which(seen, {"capped": softmax(_capped(logits) + added),
                        "capped_with_bias": softmax(_capped(logits + added)),
                        "clipped": softmax(np.clip(logits, -_CAP, _CAP) + added), "ignored": softmax(logits + added)})


def _steep(asker: Asker) -> Problem:
    problem = asker.sloped(4, 4)
    return problem.but(query=2 * problem.query)


def _capped(logits: Array) -> Array:
    """Logits (B,H,T,S) under the softcap of the question."""
    return np.asarray(_CAP * np.tanh(logits / _CAP))


_ALIGNED_WINDOWS = {"top_left": "query i is at position i", "bottom_right": "query i is at position i + S - T",
            "everything": "the window is ignored", **FAILURES}
_ROWS = {"zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES}
_CAPS = {"capped": "c·tanh(x / c)", "clipped": "they are clipped at c", "ignored": "nothing: the softcap is ignored",
         **FAILURES}


def _question(name: str, answers: Mapping[str, str], ask: Ask, claim: Claim) -> Question:
    """What is asked stands in the keyword's definition."""
    return Question(name, next(word.questions[name] for word in KEYWORDS.values() if name in word.questions), answers,
                    ask, claim)


WINDOW_QUESTIONS = (
    _question("window.reach", {
        "as_asked": "from its own position minus left to its own position plus right", "one_less": "one less on a side",
        "one_more": "one more on a side", "past": "all keys up to its own position", "everything": "all keys",
        **FAILURES}, _reach, promised("as_asked", "window")),
    _question("window.longer_keys", _ALIGNED_WINDOWS, partial(_alignment, T=2, S=5), convention("causal_alignment")),
    _question("window.longer_queries", _ALIGNED_WINDOWS, partial(_alignment, T=5, S=2), convention("causal_alignment")),
    _question("hidden_row.window", _ROWS, _row, convention("hidden_row", "window")),
    _question("softcap.form", _CAPS, partial(_softcap, with_bias=False), promised("capped", "softcap")),
    _question("softcap.bias", {
        **_CAPS, "capped": "c·tanh(x / c), to which the bias is added", "capped_with_bias": "c·tanh((x + bias) / c)"},
        partial(_softcap, with_bias=True), promised("capped", "softcap")),
)
