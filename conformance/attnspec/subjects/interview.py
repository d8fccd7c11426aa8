"""Plain problems of any sizes and keywords, entries aside, with which a function is asked what it takes and refuses;
remembers what it said, and finds one that it takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.keywords import AXES, CACHED
from attnspec.core.nouns import DType, Kind
from attnspec.core.rotary import EVERY_KEYWORD, POSITIONS, width_of
from attnspec.problems.demand import fit_to_limits
from attnspec.problems.keyword_arrays import NEUTRAL, divided, keyword_array
from attnspec.problems.problem import LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.problems.rotary import RotaryProblem
from attnspec.subjects.call import gist_of
from attnspec.subjects.exceptions import Topic, refusal_words
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised, UnusableAnswer

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


@dataclass(slots=True)
class Interview:
    """A function at one dtype, and what it said: by the key of a case the words of its refusal, empty if it answered.

    An exception that is no clear refusal is no answer to what is asked here, and counts as none. origin: the exception
    that is looked for in the place of refusals, by its kind and line: where a function fails is found out likewise.
    """

    subject: Subject
    dtype: DType
    origin: str = ""
    _said_of_cases: dict[tuple[Sizes, str], str] = field(default_factory=dict)

    def takes_case(self, case: Case) -> bool:
        """Whether the function answers, rightly or wrongly, and no limit keeps the case from it."""
        return self.answers(case.pose_problem(self.dtype, self.subject.declaration.kind))

    def answers(self, problem: Problem | LayerProblem | RotaryProblem) -> bool:
        """Whether the function answers a problem as it lies in memory."""
        if self.subject.refuses(problem):
            return False
        try:
            self.subject.answer_any(problem)
        except SubjectRaised:
            return False
        except UnusableAnswer:
            return True
        return True

    def refusal(self, case: Case) -> str:
        """The words of a clear refusal; empty where the function answers, or where a limit keeps the case from it."""
        if case.key not in self._said_of_cases:
            self._said_of_cases[case.key] = self.refusal_now(case)
        return self._said_of_cases[case.key]

    def lasting_words(self, case: Case) -> str:
        """The words of a refusal that comes again: what does not depends on something else than the case."""
        return self.refusal(case) if self.refusal(case) and self.refusal_now(case) else ""

    def refusal_now(self, case: Case, topic: Topic = Topic.CALL) -> str:
        """The words of a refusal, asked anew. topic: what the refusal is to be about."""
        return self.refusal_of(case.pose_problem(self.dtype, self.subject.declaration.kind), topic)

    def refusal_of(self, problem: Problem | LayerProblem | RotaryProblem, topic: Topic = Topic.CALL) -> str:
        """The words with which the function refuses a problem as it lies in memory."""
        if self.subject.refuses(problem):
            return ""
        try:
            self.subject.answer_any(problem)
        except UnusableAnswer:
            return ""
        except SubjectRaised as raised:
            if self.origin:
                return raised.summary if raised.origin == self.origin else ""
            return refusal_words(raised, problem, home=self.subject.home, topic=topic)
        return ""

    def within_limits_of(self, subject: Subject) -> Interview:
        """The interview, continued with the subject within other limits. What was said stands; what a limit kept away
        was not asked.
        """
        return Interview(subject, self.dtype, self.origin, dict(self._said_of_cases))


STARTS = (
    PLAIN, replace(PLAIN, B=1), replace(PLAIN, B=1, H=1, Hkv=1), replace(PLAIN, D=64, Dv=64),
    replace(PLAIN, B=1, D=64, Dv=64), replace(PLAIN, D=128, Dv=128), replace(PLAIN, T=128, S=128),
    Sizes(1, 2, 2, 128, 128, 64, 64), Sizes(1, 1, 1, 128, 128, 128, 128))
"""What is tried first."""

LENGTHS = ((1, 16), (1, 128), (64, 64), (128, 128), (256, 256))
WIDTHS = (64, 128, 32, 80, 96, 256)
HEADS = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (8, 8), (16, 16), (32, 8), (32, 32))
BATCHES = (1, 4, 8)
"""Where one axis, or two that belong together, is moved to: T and S, D and Dv, H and Hkv, B. Not to a few keys: who
takes no more does not refuse, but fails.
"""

TOGETHER = ((1, 128), (128, 128)), (64, 128), ((8, 1), (8, 8), (32, 8))
"""T and S, D, H and Hkv that are tried in one, as some check them in one."""

MOST_STEPS = 8
"""Different refusals that are followed."""


def start_of(interview: Interview) -> Case | None:
    """The first plain case that the function takes; None if none is found: then nothing is concluded of it."""
    causal = {"causal": True} if interview.subject.declaration.limits.causal_only else {}
    usual = [Case(sizes, causal) for sizes in STARTS]
    moved = (replace(case, sizes=fit_to_limits(case.sizes, interview.subject.declaration.limits)) for case in usual)
    if taken := next(filter(interview.takes_case, chain(usual, moved)), None):
        return taken
    try:
        return _follow_refusals(interview, usual[0])
    except SubjectDied:  # the clauses say how
        return None


def _follow_refusals(interview: Interview, start: Case) -> Case | None:
    """A case that is taken, on the way of which each refusal is another one than those before: a check was passed."""
    waiting, met = deque([start]), {gist_of(interview.refusal(start))}
    for _ in range(MOST_STEPS):
        if not waiting or met == {""}:
            return None
        for case in _moves(waiting.popleft()):
            words = interview.refusal(case)
            if not words and interview.takes_case(case):
                return case
            if (gist := gist_of(words)) not in met:
                met.add(gist)
                waiting.append(case)
    return None


def _moves(case: Case) -> Iterator[Case]:
    sizes = case.sizes
    yield from (replace(case, sizes=replace(sizes, T=T, S=S)) for T, S in LENGTHS)
    yield from (replace(case, sizes=replace(sizes, D=width, Dv=width)) for width in WIDTHS)
    yield from (replace(case, sizes=replace(sizes, H=heads, Hkv=kv_heads)) for heads, kv_heads in HEADS)
    yield from (replace(case, sizes=replace(sizes, B=batch)) for batch in BATCHES)
    yield from (replace(case, sizes=Sizes(1, heads, kv_heads, T, S, width, width))
                for (T, S), width, (heads, kv_heads) in product(*TOGETHER))
