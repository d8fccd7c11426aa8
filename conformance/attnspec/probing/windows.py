"""Questions about windows and softcaps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from attnspec.ground.keywords import KEYWORDS, Window
from attnspec.probing.asker import FAILURES, Asker, NotAsked, Reply
from attnspec.probing.causal import band
from attnspec.probing.fit import shown, softmax, which
from attnspec.probing.question import Ask, Claim, Question, convention, promised
from attnspec.problems.problem import Array, Problem

_MOST = 2
"""How many keys the narrowest window reaches to a side, at the most, of those that fit the problems here."""
_CAP = 2.0


def _window(asker: Asker) -> Window:
    """The narrowest that it takes, one-sided if it takes one."""
    limits = asker.subject.declaration.limits
    left = max(1, limits.min_window)
    if left > _MOST:
        raise NotAsked(f"its windows reach {left} keys far at the least")
    both = limits.window_is_symmetric and not limits.window_needs_causal
    return left, left if both else limits.min_window


def _posed(asker: Asker, T: int, S: int) -> Problem:
    needs_causal = asker.subject.declaration.limits.window_needs_causal
    return asker.even(T, S).but(window=_window(asker), causal=needs_causal)


def _seen(asker: Asker, T: int, S: int, shift: int = 0, *, more: int = 0) -> Array:
    """(T,S): what a query sees whose place is shifted, and whose window reaches further on either side that it has."""
    left, right = _window(asker)
    assert left is not None  # `_window` makes two numbers
    assert right is not None
    far = np.arange(S) - np.arange(T)[:, None] - shift
    ends = 0 if asker.subject.declaration.limits.window_needs_causal else right + more * bool(right)
    return np.asarray((far >= -left - more) & (far <= ends))


def _reach(asker: Asker) -> Reply:
    seen = asker.output(_posed(asker, 5, 5))[..., :5]
    bands = {"as_asked": _seen(asker, 5, 5), "one_less": _seen(asker, 5, 5, more=-1),
             "one_more": _seen(asker, 5, 5, more=1), "past": np.tri(5, dtype=bool), "everything": np.ones((5, 5), bool)}
    return Reply(band(seen, bands), shown(seen))


def _alignment(asker: Asker, T: int, S: int) -> Reply:
    seen = asker.output(_posed(asker, T, S))[..., :S]
    return Reply(band(seen, _aligned(asker, T, S)), shown(seen))


def _aligned(asker: Asker, T: int, S: int) -> Mapping[str, Array]:
    return {"top_left": _seen(asker, T, S), "bottom_right": _seen(asker, T, S, S - T),
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
    return np.asarray(_CAP * np.tanh(logits / _CAP))


_ALIGNED = {"top_left": "query i stands at place i", "bottom_right": "query i stands at place i + S - T",
            "everything": "the window is ignored", **FAILURES}
_ROWS = {"zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES}
_CAPS = {"capped": "c·tanh(x / c)", "clipped": "they are cut off at c", "ignored": "nothing", **FAILURES}


def _question(name: str, answers: Mapping[str, str], ask: Ask, claim: Claim) -> Question:
    """What is asked stands in the keyword's definition."""
    return Question(name, next(word.questions[name] for word in KEYWORDS.values() if name in word.questions), answers,
                    ask, claim)


QUESTIONS = (
    _question("window.reach", {
        "as_asked": "from its own place less left to its own place plus right", "one_less": "one less on a side",
        "one_more": "one more on a side", "past": "all up to its own place", "everything": "all", **FAILURES},
        _reach, promised("as_asked", "window")),
    _question("window.longer_keys", _ALIGNED, partial(_alignment, T=2, S=5), convention("causal_alignment")),
    _question("window.longer_queries", _ALIGNED, partial(_alignment, T=5, S=2), convention("causal_alignment")),
    _question("hidden_row.window", _ROWS, _row, convention("hidden_row", "window")),
    _question("softcap.form", _CAPS, partial(_softcap, with_bias=False), promised("capped", "softcap")),
    _question("softcap.bias", {
        **_CAPS, "capped": "c·tanh(x / c), to which the bias is added", "capped_with_bias": "c·tanh((x + bias) / c)"},
        partial(_softcap, with_bias=True), promised("capped", "softcap")),
)
