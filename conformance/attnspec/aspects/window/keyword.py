"""The keyword `window`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from attnspec.core.errors import SpecError
from attnspec.core.keyword import GROWN_FROM, Acts, Keyword, KeywordLimits, Saying, Values, Window

_NARROW = 3  # keys: up to here a side of a window is the same at all sizes; a longer one keeps its share of them
_WIDEST = 999_999  # keys: wider than any problem is long, and what a recipe has room for


def _misfit(limits: KeywordLimits, window: Window, causal: bool) -> str:
    """Why a function with these limits cannot take a window; causal ones ignore the right."""
    sides = window[:1] if limits.window_needs_causal else window
    if limits.window_needs_causal and not causal:
        return "a window only together with the causal flag"
    if limits.window_is_symmetric and len(set(sides)) == 2:
        return "only a window that reaches as far to the right as to the left"
    if limits.window_is_bounded and None in sides:
        return "only a window with a bound on each side"
    if any(side is not None and side < limits.min_window for side in sides):
        return f"a window of {limits.min_window} keys a side and more only"
    return ""


def _write(window: Window) -> str:
    """A window as a recipe writes it: `2+1`; `3+-` has no bound on the right."""
    return "+".join("-" if side is None else str(side) for side in window)


def _read(text: str) -> Window:
    """The window that a recipe writes. Raises ValueError for any other text."""
    sides = text.split("+")
    if len(sides) != 2 or not all(re.fullmatch(r"-|\d{1,6}", side, re.ASCII) for side in sides):
        raise ValueError(f"window should read left+right, as 2+1 or 3+- (no bound on the right), not {text!r}")
    left, right = (None if side == "-" else int(side) for side in sides)
    return left, right


def _check(window: Window) -> Window:
    """The window that YAML gives. Raises SpecError if a side is negative or too wide."""
    for side in window:
        if side is not None and not 0 <= side <= _WIDEST:
            raise SpecError(f"a window reaches from 0 to {_WIDEST} keys to a side, not {side}; null means no bound.")
    left, right = window
    return left, right


def _grow(window: Window, keys: int) -> Window:
    """The window for more keys: it reaches so much further, and a little less than round."""
    times = max(1, keys // GROWN_FROM)
    left, right = (side if side is None else side * times - (side > 1) * (times > 1) for side in window)
    return left, right


def _scale(window: Window, share: float) -> Window:
    """The window for `share` times as many keys."""
    left, right = (side if side is None or side <= _NARROW else max(_NARROW, round(side * share)) for side in window)
    return left, right


def _reach(side: int) -> Callable[[Window], float]:
    """How far a window reaches to one side, 0 being the left; without bound, infinitely far."""
    return lambda window: math.inf if window[side] is None else float(window[side] or 0)


_EVEN = {"window_is_symmetric": True, "window_is_bounded": True}

KEYWORDS = (
    Keyword(
        "window", "(int or None, int or None)", "(left, right): the query at position p sees the keys p - left … "
        "p + right and no others; None: no bound on that side. p is the query's own place, as `causal_alignment` "
        "counts it", "window", Acts.VISIBILITY, "tuple[int | None, int | None] | None",
        promise="a query attends to the keys within a window about its own place",
        hides=True, as_causal=(None, 0),
        values=Values(
            # Narrow ones: one as wide as the sequence bounds nothing.
            ((1, 1), (2, 0), (0, 1), (3, None), (None, 2), (0, 0), (1, 3), (None, 0), (2, 2), (0, None), (3, 1),
             (1, 0)), "windows", (None, None), _write, _read, _check, grown=_grow, scaled=_scale),
        sample=(2, 1), is_uncommon=True, misfit=_misfit, needs_causal="window_needs_causal",
        numbers={"the window to the left": _reach(0), "the window to the right": _reach(1)}, questions={
            "window.reach": "Which keys does a query see through a window (left, right) if T = S?",
            "window.longer_keys": "Around which position does the window of query i lie if T < S?",
            "window.longer_queries": "Around which position does the window of query i lie if T > S?",
            "hidden_row.window": "What is the output of a query whose window holds no key?"},
        asks="Which keys does a query see through a window?",
        other_names=("window_size", "local_window_size"),
        parameters=("window", "window_size", "local_window_size", "sliding_window"),
        sayings=(
            Saying("window", "(left, right)", posed=(1, None)),
            Saying("tuple(-1 if side is None else side for side in window)",
                   "(left, right), -1 for a side without bound", posed=(1, None)),
            Saying("window", "(left, right), both numbers", {"window_is_bounded": True}, posed=(2, 1)),
            Saying("window[0]", "so many keys to either side", _EVEN, posed=(1, 1)),
            Saying("window[0] + 1", "so many keys to either side, its own among them", _EVEN, posed=(1, 1)),
            Saying("window[0] + 1", "so many keys back, its own among them",
                   {"window_needs_causal": True, "window_is_bounded": True}, posed=(1, 0)),
            Saying("window[0]", "so many keys back, beside its own",
                   {"window_needs_causal": True, "window_is_bounded": True}, posed=(1, 0)))),
)
