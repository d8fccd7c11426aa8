"""A problem for a decoder: the calls that store its past, and the call that is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from attnspec.core.forms import HELD_IN_CACHE, OF_ENTRIES, STATE
from attnspec.core.keyword import Acts
from attnspec.core.keyword_nouns import StepPattern
from attnspec.core.keywords import AXES, COUNTS, KEYWORDS
from attnspec.problems.caches import cut_scales
from attnspec.problems.problem import HELD, Array, Problem, joined

USUAL: StepPattern = "at_once"
"""How the past comes into the cache where a case does not say it."""

MOST_STEPS = 16
"""Of so many past keys at most, each has a call of its own."""

GROWING = 7
"""So many calls store one key more than the call before each; the rest is stored at once."""

NONE = ""
"""The name of the cache of a sequence that has not begun."""

FIRST: Mapping[str, object] = {STATE: {"earlier": {}, "takes": NONE}}
"""What is told of the first call of a sequence."""

OWN, OTHER, TRIED = "own", "other", "tried"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A call of a decoder, a problem without a past. takes: the name of the cache that it is handed.  makes: of the one
    that it hands back.
    """

    problem: Problem
    takes: str
    makes: str


@dataclass(frozen=True, slots=True, eq=False)
class SteppedDecoding:
    """The calls that come before, in their order, and the one that is judged."""

    earlier: tuple[Step, ...]
    last: Step


def in_steps(problem: Problem, pattern: StepPattern) -> SteppedDecoding:
    """The problem as calls of a decoder; without a past, the call that is judged is the first of its sequence."""
    own = tuple(_storing_steps(problem, OWN, _ENDS.get(pattern, _at_once)(problem.past)))
    takes = OWN if own else NONE
    last = Step(_without_past(problem), takes, OWN)
    if pattern == "beside_another":
        return SteppedDecoding(_by_turns(own, tuple(_storing_steps(_another(problem), OTHER, _halves(problem.past)))),
                               last)
    if pattern == "after_another":
        return SteppedDecoding((*_storing_steps(_another(problem), OTHER, _at_once(problem.sizes.S)), *own), last)
    if pattern == "tried_before":
        other = _another(problem)
        return SteppedDecoding((*own, Step(_quiet(other, _without_past(other)), takes, TRIED)), last)
    return SteppedDecoding(own, last)


Arguments = tuple[Mapping[str, Array], Mapping[str, object]]
"""The arrays of a call, query (B,H,T,D) or (B,T,M) and its like, and its keywords."""


def steps_for_host(stepped: SteppedDecoding, call: Callable[[Problem], Arguments]) -> dict[str, Any]:
    """The keyword that the host makes calls of (docs/protocol.md). call: arrays and keywords of one call."""
    earlier = {}
    for number, step in enumerate(stepped.earlier):
        arrays, keywords = call(step.problem)
        earlier[str(number)] = {"inputs": arrays, "keywords": keywords, "takes": step.takes, "makes": step.makes}
    return {STATE: {"earlier": earlier, "takes": stepped.last.takes}}


def _at_once(past: int) -> tuple[int, ...]:
    """Where calls begin and end, of so many past keys."""
    return (0, past)


def _halves(past: int) -> tuple[int, ...]:
    return (0, past // 2, past)


def _one_by_one(past: int) -> tuple[int, ...]:
    return (0, *range(max(0, past - MOST_STEPS), past + 1))


def _growing(past: int) -> tuple[int, ...]:
    ends = (number * (number + 1) // 2 for number in range(GROWING + 1))
    return (*(end for end in ends if end < past), past)


_ENDS: Mapping[StepPattern, Callable[[int], tuple[int, ...]]] = {
    "token_by_token": _one_by_one, "halves": _halves, "growing": _growing, "beside_another": _halves}


def _storing_steps(problem: Problem, name: str, places: tuple[int, ...]) -> Iterator[Step]:
    """The calls that store the first keys of a problem, cut at these places."""
    whole, takes = joined(problem), NONE
    for first, end in pairwise(places):
        if first < end:
            yield Step(_quiet(problem, _span(whole, first, end), end), takes, name)
            takes = name


def _span(whole: Problem, first: int, end: int) -> Problem:
    """As many queries as keys: the keys themselves, one for each query head."""
    key, value = (np.ascontiguousarray(getattr(whole, name)[:, :, first:end]) for name in HELD)
    heads = whole.query.shape[1] // key.shape[1]
    rows = np.arange(end - first) % whole.query.shape[2]  # scales of the queries are as many, and any will do
    scales = cut_scales(whole, keys=slice(first, end), queries=rows)
    return whole.but(**scales, query=np.repeat(key, heads, axis=1), key=key, value=value)


def _quiet(problem: Problem, part: Problem, end: int | None = None) -> Problem:
    """A call whose answer is thrown away: nothing that has rows, nothing asked for, and no number of keys beyond its
    end.
    """
    rows = {name for name, axes in AXES.items() if name in problem.given and set(axes) & set("TS")} - OF_ENTRIES
    asked = {name for name in problem.given if KEYWORDS[name].acts is Acts.ANSWER}
    counted = {name: np.minimum(value, end).astype(value.dtype) if end is not None and COUNTS[name] == "S" else None
               for name, value in problem.given.items() if name in COUNTS}
    bare: dict[str, Any] = {**dict.fromkeys(rows), **dict.fromkeys(asked, False), **counted}
    return _without_past(part.but(**bare))


def _without_past(problem: Problem) -> Problem:
    """The call by itself: what the cache holds is not handed over, nor what belongs to it."""
    new = cut_scales(problem, keys=slice(problem.past, None))
    return problem.but(**new, **dict.fromkeys(HELD_IN_CACHE), **{STATE: None})


def _another(problem: Problem) -> Problem:
    """The same with other keys and values: of the opposite sign, each at the place of its neighbour. Codes keep their
    sign, since a format may not have the other one, and have scales of twice the size.
    """
    has_codes = not OF_ENTRIES.isdisjoint(problem.given)
    scales = {name: np.asarray(2 * value) for name, value in cut_scales(problem).items()}
    return problem.but(**scales, **{
        name: np.ascontiguousarray(np.roll(value if has_codes else -value, 1, axis=2))
        for name in (*HELD, *HELD_IN_CACHE) if (value := getattr(problem, name)) is not None})


def _by_turns(own: tuple[Step, ...], other: tuple[Step, ...]) -> tuple[Step, ...]:
    """A call of the one, a call of the other."""
    pairs = zip(own, other, strict=True)
    return tuple(step for pair in pairs for step in pair)
