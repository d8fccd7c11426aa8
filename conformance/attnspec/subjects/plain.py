"""Plain problems of any sizes and keywords: what a function takes and refuses is asked with these, entries aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.keywords import AXES, CACHED
from attnspec.core.nouns import DType, Kind
from attnspec.core.rotary import EVERY_KEYWORD, POSITIONS, width_of
from attnspec.problems.keyword_arrays import NEUTRAL, divided, keyword_array
from attnspec.problems.problem import LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.problems.rotary import RotaryProblem

PLAIN = Sizes(B=2, H=4, Hkv=4, T=16, S=16, D=16, Dv=16)
"""What any attention takes, or nearly any."""

COORDINATES = ("B", "G", "H", "Dv", "D", "T", "S")
"""What sizes are varied along; Hkv follows from H and G."""


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes, and the keywords in use, each with its value; of an array that it is given."""

    sizes: Sizes
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Sizes, str]:
        """A key that is the same for cases that are the same."""
        return self.sizes, repr(sorted(self.keywords.items()))

    def size_along(self, coordinate: str) -> int:
        """The size along a coordinate."""
        return self.sizes.H // self.sizes.Hkv if coordinate == "G" else self.sizes.by_axis[coordinate]

    def move_case(self, **places: int) -> Case | None:
        """The case at other places along some coordinates; None where the heads cannot be shared out so."""
        H, G = places.pop("H", self.sizes.H), places.pop("G", self.size_along("G"))
        return None if H % G else replace(self, sizes=replace(self.sizes, H=H, Hkv=H // G, **places))

    def pose_problem(self, dtype: DType, kind: Kind) -> Problem | RotaryProblem:
        """The problem of a subject of this kind; a rotary embedding has small whole numbers that count from 0."""
        if kind is not Kind.ROTARY:
            return self.problem(dtype)
        x, (B, T) = Case(self.sizes).problem(dtype).query, (self.sizes.B, self.sizes.T)
        given = {name: value for name, value in self.keywords.items() if name != POSITIONS}
        if "rotary_width" in given:
            given["rotary_width"] = width_of(given["rotary_width"], self.sizes.D)
        return RotaryProblem(dtype, x, np.tile(np.arange(T, dtype=np.int32), (B, 1)), **given)

    def problem(self, dtype: DType) -> Problem:
        """Small whole numbers: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv); masks hide nothing."""
        B, H, Hkv, T, S, D, Dv = self.sizes.by_axis.values()
        number = numpy_dtype(dtype)
        query, key, value = ((np.arange(np.prod(shape)).reshape(shape) % 3 - 1).astype(number)
                             for shape in ((B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv)))
        rare = {name: value for name, value in self.keywords.items() if is_rare(name, value)}
        neutral = {"mask": np.ones((B, H, T, S), bool), "bias": np.zeros((B, H, T, S), number),
                   **{name: keyword_array(name, rare.get(name, NEUTRAL[name]), 0, self.sizes, dtype) for name in NEUTRAL
                      if name in self.keywords}} if self.keywords.keys() & AXES.keys() else {}
        problem = Problem(dtype, query, key, value, **{name: neutral.get(name, value)
                                                       for name, value in self.keywords.items() if name not in CACHED})
        return divided(problem, S // 2) if self.keywords.keys() & set(CACHED) else problem


def case_of(problem: Problem | LayerProblem | RotaryProblem) -> Case:
    """The sizes and keywords of a problem; a width that a rotary embedding was given is half of the features."""
    if isinstance(problem, RotaryProblem):
        given = {name: value for name, value in problem.given.items() if name != POSITIONS}
        return Case(problem.sizes, {**given, **({"rotary_width": "half"} if "rotary_width" in given else {})})
    return Case(problem.sizes, {name: True if name in AXES else value for name, value in problem.given.items()})


def is_rare(keyword: str, value: object) -> bool:
    """Whether a value is the pattern that few functions take of a keyword."""
    rare = EVERY_KEYWORD[keyword].rare if keyword in EVERY_KEYWORD else None
    return rare is not None and value == rare.pattern


def value_for(keyword: str, limits: Limits) -> Any:  # noqa: ANN401  (by the keyword)
    """A usual value of a keyword, within limits."""
    values = EVERY_KEYWORD[keyword].values
    usual = values.generic or values.usual if values else (True,)
    return next((each for each in usual if not limits.misfit(keyword, each, causal=True)), usual[0])


def with_keyword(case: Case, keyword: str, limits: Limits) -> Case:
    """The case with one keyword more, and with those that are needed beside it."""
    more = {name: True if name == "causal" else value_for(name, limits) for name in (*limits.brings(keyword), keyword)}
    return replace(case, keywords={**case.keywords, **more})


def differences_between(start: Case, end: Case) -> Iterator[str]:
    """The keywords and coordinates in which a case differs from the one to start from."""
    yield from sorted(end.keywords.keys() - start.keywords.keys())
    yield from (each for each in COORDINATES if start.size_along(each) != end.size_along(each))


def case_between(start: Case, end: Case, kept: frozenset[str]) -> Case | None:
    """The case that is like the end in what is kept and else like the start; None where heads cannot be shared out."""
    places = {each: (end if each in kept else start).size_along(each) for each in COORDINATES}
    if places["H"] % places["G"] and "H" not in kept:
        places["H"] = places["G"]
    keywords = {**start.keywords, **{name: value for name, value in end.keywords.items() if name in kept}}
    return replace(start, keywords=keywords).move_case(**places)
