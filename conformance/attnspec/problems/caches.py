"""Problems whose first keys and values come from earlier calls, and those that fill a cache to its last place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.forms import STATE
from attnspec.core.keyword import Acts
from attnspec.core.keyword_nouns import PastPattern
from attnspec.core.keywords import AXES, CACHED, KEYWORDS, OFF, acting_on
from attnspec.problems.problem import HELD, Array, Problem, Sizes, joined

_PASTS: Mapping[PastPattern, Callable[[int, int], int]] = {
    "new_as_queries": lambda T, S: S - T if S > T else S // 2,
    "half": lambda _, S: S // 2,
    "one_new": lambda _, S: S - 1,
    "one_past": lambda _, S: min(1, S - 1),
    "none": lambda *_: 0,
}


def past_by(pattern: str, sizes: Sizes) -> int:
    """How many of the keys are past by a pattern."""
    return _PASTS[pattern](sizes.T, sizes.S)  # type: ignore[index]  # read by name


def divided(problem: Problem, past: int) -> Problem:
    """Divides a problem's keys and values: so many of them are handed over as past ones."""
    whole = joined(problem)
    parts = {name: getattr(whole, name) for name in HELD}
    return whole.but(**{name: np.ascontiguousarray(array[:, :, past:]) for name, array in parts.items()},
                     **{name: np.ascontiguousarray(array[:, :, :past])
                        for name, array in zip(CACHED, parts.values(), strict=True)})


def divide_alike(problem: Problem, whole: Problem) -> Problem:
    """A problem whose keys are joined, divided as another one is."""
    return divided(whole, problem.past) if problem.has_past else whole


def cut_scales(problem: Problem, *, queries: slice | Array = slice(None),
               keys: slice = slice(None)) -> dict[str, Array]:
    """What says which numbers the entries stand for, (B,H,T,D) or (B,Hkv,S,·), of these queries and keys."""
    spans: dict[str, slice | Array] = {"T": queries, "S": keys}
    return {name: np.ascontiguousarray(array[tuple(spans.get(axis, slice(None)) for axis in AXES[name])])
            for name, array in problem.given.items() if KEYWORDS[name].acts is Acts.STORAGE}


def with_values(problem: Problem, value: Array) -> Problem:
    """The problem with other values (B,Hkv,S,Dv), past ones first, which stand for themselves."""
    plain = {name: np.broadcast_to(np.ones((), array.dtype), value.shape) for name, array in problem.given.items()
             if KEYWORDS[name].meaning_of == "value"}
    return divide_alike(problem, joined(problem).but(value=value, **plain))


def filled(problem: Problem, keys: int) -> Problem:
    """The last query and the last key behind so many keys, less one: those of the problem, again and again. Without
    what has rows or columns, and without what hides keys but the causal flag.
    """
    whole = joined(problem)
    order = np.append(np.arange(keys - 1) % whole.sizes.S, whole.sizes.S - 1)
    hiding = {name: off for name, off in acting_on(Acts.VISIBILITY).items() if off is not False}
    columns = {name: OFF[name] for name, axes in AXES.items() if set(axes) & set("TS") and name in OFF}
    repeated = {name: getattr(whole, name)[:, :, order] for name in HELD}
    last = np.ascontiguousarray(whole.query[:, :, -1:])
    return divided(whole.but(**{**columns, **hiding, STATE: None, **repeated, "query": last}), keys - 1)


def last_keys(problem: Problem, keys: int) -> Problem:
    """A filled problem without those keys before its last, all of which its one query sees."""
    whole = joined(problem)
    kept = {name: np.ascontiguousarray(getattr(whole, name)[:, :, -keys:]) for name in HELD}
    return whole.but(causal=False, **kept)
