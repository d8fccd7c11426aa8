"""The words of the spec language that are about a window.

A probe asks about a window: how far it reaches, and along which diagonal it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import numpy as np

from attnspec.core.keyword import Window
from attnspec.numerics.operands import visible_keys
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    NotAsked,
    Reply,
    declared_convention,
    keyword_question,
    name_candidate,
    promised_answer,
    show_numbers,
)
from attnspec.questions.inputs import name_band
from attnspec.vocabulary.transforms.axes import Attention


def window_as_mask(posed: Attention) -> Attention:
    """Pass the window as an explicit mask, combined with the given mask and the causal flag."""
    return posed.but(causal=False, window=None, mask=visible_keys(posed.one.but(bias=None), posed.conventions))


def with_window(posed: Attention, *, to: Literal["unbounded", "as wide as all"]) -> Attention:
    """Pass a window that masks no key: without bounds, or with bounds beyond both ends."""
    sizes = posed.one.sizes
    all_keys = sizes.S + sizes.T
    return posed.but(window=(None, None) if to == "unbounded" else (all_keys, all_keys))


TRANSFORMS = (window_as_mask, with_window)


_MOST = 2
"""How many keys the narrowest window reaches to a side, at the most, in these problems."""


def _window(asker: Asker) -> Window:
    """The narrowest that it takes, one-sided if it takes one."""
    limits = asker.subject.declaration.limits
    left = max(1, limits.min_window)
    if left > _MOST:
        raise NotAsked(f"its windows reach at least {left} keys")
    both = limits.window_is_symmetric and not limits.brings("window")
    return left, left if both else limits.min_window


def _windowed_problem(asker: Asker, T: int, S: int) -> Problem:
    needs_causal = bool(asker.subject.declaration.limits.brings("window"))
    return asker.make_even(T, S).but(window=_window(asker), causal=needs_causal)


def _expected_window(asker: Asker, T: int, S: int, shift: int = 0, *, more: int = 0) -> Array:
    """(T,S): what a shifted query sees if its window reaches further on each side that it has."""
    left, right = _window(asker)
    assert left is not None  # `_window` makes two numbers
    assert right is not None
    far = np.arange(S) - np.arange(T)[:, None] - shift
    ends = 0 if asker.subject.declaration.limits.brings("window") else right + more * bool(right)
    return np.asarray((far >= -left - more) & (far <= ends))


def _reach(asker: Asker) -> Reply:
    seen = asker.ask_output(_windowed_problem(asker, 5, 5))[..., :5]
    bands = {"as_asked": _expected_window(asker, 5, 5), "one_less": _expected_window(asker, 5, 5, more=-1),
             "one_more": _expected_window(asker, 5, 5, more=1), "past": np.tri(5, dtype=bool),
             "everything": np.ones((5, 5), bool)}
    return Reply(name_band(seen, bands), show_numbers(seen))


def _alignment(asker: Asker, T: int, S: int) -> Reply:
    seen = asker.ask_output(_windowed_problem(asker, T, S))[..., :S]
    return Reply(name_band(seen, _visible_by_alignment(asker, T, S)), show_numbers(seen))


def _visible_by_alignment(asker: Asker, T: int, S: int) -> Mapping[str, Array]:
    """What each query sees, (T,S), under each alignment of its place, and without the window."""
    return {"top_left": _expected_window(asker, T, S), "bottom_right": _expected_window(asker, T, S, S - T),
            "everything": np.ones((T, S), bool)}


def _row(asker: Asker) -> Reply:
    """More queries than keys: some of them see none."""
    name = _alignment(asker, 5, 2).answer
    visible = _visible_by_alignment(asker, 5, 2).get(name)
    empty = visible is None or ~visible.any(axis=1)
    if visible is None or not np.any(empty):
        raise NotAsked("every query sees a key")
    problem = asker.make_sloped(5, 2)
    seen = asker.ask_output(_windowed_problem(asker, 5, 2).but(query=problem.query, key=problem.key))[:, :, empty, :2]
    return name_candidate(seen, {"zeros": np.zeros(2), "uniform": np.full(2, 0.5), "nan": np.full(2, np.nan)})


_ALIGNED_WINDOWS = {"top_left": "query i is at position i", "bottom_right": "query i is at position i + S - T",
            "everything": "the window is ignored", **FAILURES}
_ROWS = {"zeros": "zeros", "uniform": "the mean of all values", "nan": "NaN", **FAILURES}

QUESTIONS = (
    keyword_question("window.reach", {
        "as_asked": "from its own position minus left to its own position plus right", "one_less": "one less on a side",
        "one_more": "one more on a side", "past": "all keys up to its own position", "everything": "all keys",
        **FAILURES}, _reach, promised_answer("as_asked", "window")),
    keyword_question("window.longer_keys", _ALIGNED_WINDOWS, partial(_alignment, T=2, S=5),
                     declared_convention("causal_alignment")),
    keyword_question("window.longer_queries", _ALIGNED_WINDOWS, partial(_alignment, T=5, S=2),
                     declared_convention("causal_alignment")),
    keyword_question("hidden_row.window", _ROWS, _row, declared_convention("hidden_row", "window")),
)
