"""Asks a function which plain problems it takes and which it refuses.

Problems have any sizes and keywords; their entries do not matter. What it said is kept, and one
problem that it takes is found. Of a problem that it refuses, the fewest sizes and keywords that
make it refuse are found, and from where on along each axis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, product
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.forms import EVERY_KEYWORD, POSITIONS, width_of
from attnspec.core.keywords import AXES, CACHED
from attnspec.core.nouns import DType, Kind
from attnspec.core.sizes import Refusal, RefusalCondition
from attnspec.problems.demand import fit_to_limits
from attnspec.problems.keyword_arrays import NEUTRAL_PATTERNS, keyword_array, split_past
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.subjects.call import find_gist
from attnspec.subjects.exceptions import Topic, refusal_words
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised, UnusableAnswer

PLAIN = Sizes(B=2, H=4, Hkv=4, T=16, S=16, D=16, Dv=16)
"""The sizes that nearly any attention takes."""

COORDINATES = ("B", "G", "H", "Dv", "D", "T", "S")
"""The coordinates along which sizes vary; Hkv follows from H and G."""


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes, and the keywords in use with their values; for an array, True."""

    sizes: Sizes
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Sizes, str]:
        """Returns a key that equal cases share."""
        return self.sizes, repr(sorted(self.keywords.items()))

    def size_along(self, coordinate: str) -> int:
        """Returns the size along a coordinate."""
        return self.sizes.H // self.sizes.Hkv if coordinate == "G" else self.sizes.by_axis[coordinate]

    def move_case(self, **places: int) -> Case | None:
        """Moves the case along some coordinates; None where heads cannot be shared out so."""
        H, G = places.pop("H", self.sizes.H), places.pop("G", self.size_along("G"))
        return None if H % G else replace(self, sizes=replace(self.sizes, H=H, Hkv=H // G, **places))

    def pose_problem(self, dtype: DType, kind: Kind) -> Problem | RotaryProblem:
        """Makes the problem for a subject of this kind; a rotary embedding gets x (B,H,T,D)."""
        if kind is not Kind.ROTARY:
            return self.make_problem(dtype)
        x, (B, T) = Case(self.sizes).make_problem(dtype).query, (self.sizes.B, self.sizes.T)
        given = {name: value for name, value in self.keywords.items() if name != POSITIONS}
        if "rotary_width" in given:
            given["rotary_width"] = width_of(given["rotary_width"], self.sizes.D)
        return RotaryProblem(dtype, x, np.tile(np.arange(T, dtype=np.int32), (B, 1)), **given)

    def make_problem(self, dtype: DType) -> Problem:
        """Makes query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) of small whole numbers."""
        B, H, Hkv, T, S, D, Dv = self.sizes.by_axis.values()
        number = numpy_dtype(dtype)
        query, key, value = ((np.arange(np.prod(shape)).reshape(shape) % 3 - 1).astype(number)
                             for shape in ((B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv)))
        rare = {name: value for name, value in self.keywords.items() if is_rare(name, value)}
        neutral: dict[str, Any] = {}
        if self.keywords.keys() & AXES.keys():
            neutral |= {"mask": np.ones((B, H, T, S), bool), "bias": np.zeros((B, H, T, S), number)}
            for name in NEUTRAL_PATTERNS.keys() & self.keywords.keys():
                pattern = rare.get(name, NEUTRAL_PATTERNS[name])
                neutral[name] = keyword_array(name, pattern, 0, self.sizes, dtype)
        problem = Problem(dtype, query, key, value,
                          **{name: neutral.get(name, value)
                             for name, value in self.keywords.items() if name not in CACHED})
        return split_past(problem, S // 2) if self.keywords.keys() & set(CACHED) else problem


def case_of(problem: Problem | LayerProblem | RotaryProblem) -> Case:
    """Returns the sizes and keywords of a problem; any rotary width counts as half of D."""
    if isinstance(problem, RotaryProblem):
        given = {name: value for name, value in problem.given.items() if name != POSITIONS}
        if "rotary_width" in given:
            given["rotary_width"] = "half"
        return Case(problem.sizes, given)
    given = dict(problem.given)
    return Case(problem.sizes, {**given, **dict.fromkeys(given.keys() & AXES.keys(), True)})


def is_rare(keyword: str, value: object) -> bool:
    """Says whether a value is the pattern of a keyword that few functions take."""
    rare = EVERY_KEYWORD[keyword].rare if keyword in EVERY_KEYWORD else None
    return rare is not None and value == rare.pattern


def value_for(keyword: str, limits: Limits) -> Any:  # noqa: ANN401  (by the keyword)
    """Returns a usual value of a keyword, within limits."""
    values = EVERY_KEYWORD[keyword].values
    usual = values.generic or values.usual if values else (True,)
    return next((each for each in usual if not limits.misfit(keyword, each, causal=True)),
                usual[0])


def with_keyword(case: Case, keyword: str, limits: Limits) -> Case:
    """Adds a keyword to a case, with those that are needed beside it."""
    more: dict[str, Any] = {}
    for name in (*limits.brings(keyword), keyword):
        more[name] = True if name == "causal" else value_for(name, limits)
    return replace(case, keywords={**case.keywords, **more})


def differences_between(start: Case, end: Case) -> Iterator[str]:
    """Yields the keywords and coordinates in which two cases differ."""
    yield from sorted(end.keywords.keys() - start.keywords.keys())
    for each in COORDINATES:
        if start.size_along(each) != end.size_along(each):
            yield each


def case_between(start: Case, end: Case, kept: frozenset[str]) -> Case | None:
    """Takes what is kept from the end and the rest from the start; None if heads do not fit."""
    places = {each: (end if each in kept else start).size_along(each) for each in COORDINATES}
    if places["H"] % places["G"] and "H" not in kept:
        places["H"] = places["G"]
    keywords = {**start.keywords, **{name: value for name, value in end.keywords.items() if name in kept}}
    return replace(start, keywords=keywords).move_case(**places)


@dataclass(slots=True)
class Interview:
    """A function at one dtype, and what it said: by key of a case, the words of its refusal or "".

    An exception that is no clear refusal counts as no answer.  origin: an exception, by its kind
    and line, that is looked for instead of refusals.
    """

    subject: Subject
    dtype: DType
    origin: str = ""
    _said_of_cases: dict[tuple[Sizes, str], str] = field(default_factory=dict)

    def takes_case(self, case: Case) -> bool:
        """Says whether the function answers a case, rightly or not, and no limit forbids it."""
        return self.answers(case.pose_problem(self.dtype, self.subject.declaration.kind))

    def answers(self, problem: Problem | LayerProblem | RotaryProblem) -> bool:
        """Says whether the function answers a problem as it lies in memory."""
        if self.subject.refuses(problem):
            return False
        try:
            self.subject.answer(problem)
        except SubjectRaised:
            return False
        except UnusableAnswer:
            return True
        return True

    def refusal(self, case: Case) -> str:
        """Returns the words of a clear refusal; empty if it answers or a limit forbids it."""
        if case.key not in self._said_of_cases:
            self._said_of_cases[case.key] = self.refusal_now(case)
        return self._said_of_cases[case.key]

    def lasting_words(self, case: Case) -> str:
        """Returns the words of a refusal that comes again, and so depends on the case alone."""
        return self.refusal(case) if self.refusal(case) and self.refusal_now(case) else ""

    def refusal_now(self, case: Case, topic: Topic = Topic.CALL) -> str:
        """Asks anew, and returns the words of a refusal on this topic."""
        return self.refusal_of(case.pose_problem(self.dtype, self.subject.declaration.kind), topic)

    def refusal_of(self, problem: Problem | LayerProblem | RotaryProblem,
                   topic: Topic = Topic.CALL) -> str:
        """Returns the words with which it refuses a problem as it lies in memory."""
        if self.subject.refuses(problem):
            return ""
        try:
            self.subject.answer(problem)
        except UnusableAnswer:
            return ""
        except SubjectRaised as raised:
            if self.origin:
                return raised.summary if raised.origin == self.origin else ""
            return refusal_words(raised, problem, home=self.subject.home, topic=topic)
        return ""

    def within_limits_of(self, subject: Subject) -> Interview:
        """Continues the interview within the other limits of a subject; what was said stands."""
        return Interview(subject, self.dtype, self.origin, dict(self._said_of_cases))


STARTS = (
    PLAIN, replace(PLAIN, B=1), replace(PLAIN, B=1, H=1, Hkv=1), replace(PLAIN, D=64, Dv=64),
    replace(PLAIN, B=1, D=64, Dv=64), replace(PLAIN, D=128, Dv=128), replace(PLAIN, T=128, S=128),
    Sizes(1, 2, 2, 128, 128, 64, 64), Sizes(1, 1, 1, 128, 128, 128, 128))

LENGTHS = ((1, 16), (1, 128), (64, 64), (128, 128), (256, 256))
WIDTHS = (64, 128, 32, 80, 96, 256)
HEADS = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (8, 8), (16, 16), (32, 8), (32, 32))
BATCHES = (1, 4, 8)
"""Where one axis, or two that belong together, is moved to: T and S, D and Dv, H and Hkv, B.
Lengths of a few keys are left out: who takes no more does not refuse, but fails.
"""

TOGETHER = ((1, 128), (128, 128)), (64, 128), ((8, 1), (8, 8), (32, 8))
"""T and S, D, H and Hkv that are tried together, as some functions check them together."""

MOST_STEPS = 8


def start_of(interview: Interview) -> Case | None:
    """Finds the first plain case that the function takes; None if none is found."""
    causal = {"causal": True} if interview.subject.declaration.limits.causal_only else {}
    usual = [Case(sizes, causal) for sizes in STARTS]
    limits = interview.subject.declaration.limits
    moved = (replace(case, sizes=fit_to_limits(case.sizes, limits)) for case in usual)
    if taken := next(filter(interview.takes_case, chain(usual, moved)), None):
        return taken
    try:
        return _follow_refusals(interview, usual[0])
    except SubjectDied:  # the clauses say how
        return None


def _follow_refusals(interview: Interview, start: Case) -> Case | None:
    """Finds a case that is taken, following refusals that differ: each new one passed a check."""
    waiting, met = deque([start]), {find_gist(interview.refusal(start))}
    for _ in range(MOST_STEPS):
        if not waiting or met == {""}:
            return None
        for case in _case_moves(waiting.popleft()):
            words = interview.refusal(case)
            if not words and interview.takes_case(case):
                return case
            if (gist := find_gist(words)) not in met:
                met.add(gist)
                waiting.append(case)
    return None


def _case_moves(case: Case) -> Iterator[Case]:
    sizes = case.sizes
    for T, S in LENGTHS:
        yield replace(case, sizes=replace(sizes, T=T, S=S))
    for width in WIDTHS:
        yield replace(case, sizes=replace(sizes, D=width, Dv=width))
    for heads, kv_heads in HEADS:
        yield replace(case, sizes=replace(sizes, H=heads, Hkv=kv_heads))
    for batch in BATCHES:
        yield replace(case, sizes=replace(sizes, B=batch))
    for (T, S), width, (heads, kv_heads) in product(*TOGETHER):
        yield replace(case, sizes=Sizes(1, heads, kv_heads, T, S, width, width))


MOST_WORK, TIMES_THE_START = 16_000_000, 16
"""The most multiply-adds of a problem on the way, so that plain Python answers it too. Where
nothing small is taken, it is so many times those of the problem to start from.
"""


GROUPS = (2, 3, 4)
"""Numbers of query heads for each key head at which one key head is compared with more."""

FEWER = 4
"""Queries and keys where few are asked for: a keyword still shows."""


@dataclass(frozen=True, slots=True)
class WordedRefusal:
    """A refusal, and what the function says when it refuses."""

    refusal: Refusal
    words: str


def find_causes(interview: Interview, start: Case, end: Case) -> tuple[WordedRefusal, ...]:
    """Finds what the function refuses of `end`, where it takes `start`; none without a clear
    refusal that comes again, as others depend on more than sizes and keywords.
    """
    kept = frozenset(differences_between(start, end))
    if not kept or not interview.lasting_words(end) or not interview.takes_case(start):
        return ()
    needed = _needed_differences(interview, start, end, kept)
    found = _RefusalSearch(interview, start, end, needed).find_refusals()
    return tuple(each for one in found for each in _at_other_sizes(interview, start, end, one))


def _at_other_sizes(interview: Interview, start: Case, end: Case,
                    found: WordedRefusal) -> tuple[WordedRefusal, ...]:
    """Finds the axis on which the refusal of a keyword depends: a mask may need B = 1."""
    keywords = found.refusal.keywords
    refused = case_between(start, end, keywords)
    if found.refusal.conditions or not keywords or refused is None:
        return (found,)
    plain = start.sizes
    for move in _moves(plain):
        moved = refused.move_case(**move)
        if moved is None or moved.sizes == plain or not interview.takes_case(moved):
            continue
        axes = _needed_differences(interview, moved, refused,
                                   frozenset(differences_between(moved, refused)))
        narrower = tuple(_RefusalSearch(interview, moved, refused, axes).find_refusals())
        if narrower:
            return tuple(WordedRefusal(Refusal(each.refusal.conditions, keywords), each.words)
                         for each in narrower)
    return (found,)


def _moves(plain: Sizes) -> Iterator[Mapping[str, int]]:
    """Yields where a keyword may be taken that is refused at plain sizes."""
    yield from ({"B": 1}, {"T": 1}, {"S": 2 * plain.S}, {"H": 1, "G": 1}, {"G": 2})
    yield from ({"T": FEWER, "S": FEWER}, {"S": FEWER}, {"T": 2 * plain.T, "S": 2 * plain.S},
                {"B": 2 * plain.B})
    for width in (plain.D // 2, 2 * plain.D, 4 * plain.D):
        yield {"D": width, "Dv": width}


def _needed_differences(interview: Interview, start: Case, end: Case,
                        kept: frozenset[str]) -> frozenset[str]:
    """Returns the differences without any of which nothing is refused."""
    pairs = map(frozenset, _TOGETHER.items())
    for each in (*pairs, *(frozenset({one}) for one in differences_between(start, end))):
        fewer = case_between(start, end, kept - each)
        if fewer is not None and interview.refusal(fewer):
            kept -= each
    return kept


_TOGETHER: Mapping[str, str] = {"T": "S", "Dv": "D"}
"""Axes that some functions take only if equal, each with the one that moves both."""


def _work(sizes: Sizes) -> int:
    return sizes.B * sizes.H * sizes.T * sizes.S * (sizes.D + sizes.Dv)


@dataclass(frozen=True, slots=True)
class _RefusalSearch:
    """Looks for what a function refuses, from a start that it takes to an end that it refuses."""

    interview: Interview
    start: Case
    end: Case
    kept_keywords: frozenset[str]

    def find_refusals(self) -> Iterator[WordedRefusal]:
        """Yields a refusal for each way to meet the conditions along the axes."""
        keywords = frozenset(self.end.keywords) & self.kept_keywords
        axes = self.kept_keywords - keywords
        least = case_between(self.start, self.end, self.kept_keywords)
        assert least is not None  # it was refused, so it could be made
        words = self.interview.refusal(least)
        relation = self._relation(axes)
        alternatives = [relation] if relation else []
        if not relation:
            for axis in self._leading_axes(axes):
                alternatives += self._along_or_groups(axis)
        if words and all(alternatives):
            for conditions in product(*alternatives):
                yield WordedRefusal(Refusal(tuple(conditions), keywords), words)

    def _leading_axes(self, axes: frozenset[str]) -> Sequence[str]:
        """Lists the axes to look along, without those that move with another."""
        spared = {"S"} if {"T", "S"} <= axes and self._has_room() else set[str]()
        return sorted(axis for axis in axes - spared
                      if _TOGETHER.get(axis) not in axes or not self._are_tied(axis))

    def _has_room(self) -> bool:
        """Says whether keys are many only because queries may not be more."""
        is_known = self.interview.subject.declaration.limits.lengths == "no_more_queries"
        return is_known and self._refuses({"S": 2 * self.end.size_along("S")})

    def _are_tied(self, axis: str) -> bool:
        """Says whether a limit keeps this axis equal to its partner."""
        apart = self._move_refused_case({axis: 2 * self.start.size_along(axis)})
        return self._is_kept(apart)

    def _relation(self, axes: frozenset[str]) -> tuple[RefusalCondition, ...]:
        """Finds that two axes may not differ, where their lengths do not matter."""
        for second, first in _TOGETHER.items():
            if axes and axes <= {first, second}:
                size = self.start.size_along(first)
                is_less = self._refuses({first: 2 * size, second: size})
                is_more = self._refuses({first: size, second: 2 * size})
                is_apart = is_less or is_more
                if is_apart and not self._refuses({first: 2 * size, second: 2 * size}):
                    sign = {(True, False): "<", (False, True): ">"}.get((is_less, is_more), "≠")
                    return (RefusalCondition(second, sign, first),)
        return ()

    def _along_or_groups(self, axis: str) -> tuple[tuple[RefusalCondition, ...], ...]:
        """Finds the conditions along an axis, or of Hkv, where one head broadcasts."""
        if axis != "G" or "H" in self.kept_keywords:
            return (self._find_axis_conditions(axis),)
        one = ({"G": groups, "H": groups} for groups in GROUPS)
        more = ({"G": groups, "H": groups * heads} for groups in GROUPS for heads in (2, 3))
        if not all(map(self._refuses, more)) or any(map(self._refuses, one)):
            return (self._find_axis_conditions(axis),)
        return (RefusalCondition("Hkv", ">", 1),), (RefusalCondition("Hkv", "<", "H"),)

    def _find_axis_conditions(self, axis: str) -> tuple[RefusalCondition, ...]:
        def move_to(size: int) -> Mapping[str, int]:
            partners = {second: size for second, first in _TOGETHER.items() if first == axis
                        and second in self.kept_keywords and self._are_tied(second)}
            heads = {}
            if axis == "G" and "H" not in self.kept_keywords:
                plain = self.start.size_along("H")
                heads["H"] = size if plain % size else plain
            return {axis: size, **partners, **heads}

        taken, refused = self._sort_answers(axis, move_to)
        if not taken or not refused:
            return ()
        found = AxisRefusals(
            axis, sorted(taken), sorted(refused), lambda size: self._refuses(move_to(size)),
            lambda size: self._is_kept(self._move_refused_case(move_to(size)))).conditions()
        if axis == "H" and (unlike := self._unlike_batch(found)):
            return unlike
        size = self.end.size_along(axis)
        if any(each.holds_at({axis: size}) for each in found):
            return found
        return (RefusalCondition(axis, "=", size),)

    def _unlike_batch(self, found: Sequence[RefusalCondition]) -> tuple[RefusalCondition, ...]:
        """Finds Hkv ≠ B, where an array with an axis too few meets the batch."""
        is_only = len(found) == 1 and found[0].sign == "≠" and found[0].step == 1
        groups = self.end.size_along("G")
        batch = (self.end if "B" in self.kept_keywords else self.start).size_along("B")
        if not is_only or found[0].than != groups * batch:
            return ()
        is_moved = self._refuses({"B": 2 * batch, "H": groups * batch}) and not self._refuses(
            {"B": 2 * batch, "H": 2 * groups * batch})
        return (RefusalCondition("Hkv", "≠", "B"),) if is_moved else ()

    def _sort_answers(self, axis: str,
                      move_to: Callable[[int], Mapping[str, int]]) -> tuple[list[int], list[int]]:
        listed = FEW if self.interview.subject.declaration.is_compiled else PLACES
        ends = self.start.size_along(axis), self.end.size_along(axis)
        asked = sorted({*listed.get(axis, listed["D"]), *ends})
        answers = {size: self._refuses(move_to(size)) for size in asked
                   if size in ends or self._is_cheap(self._move_refused_case(move_to(size)))}
        taken = [size for size in answers if not answers[size]]
        return taken, [size for size in answers if answers[size]]

    def _is_cheap(self, case: Case | None) -> bool:
        """Says whether a case is small enough and within known limits."""
        most = max(MOST_WORK, TIMES_THE_START * _work(self.start.sizes))
        return case is not None and _work(case.sizes) <= most and not self._is_kept(case)

    def _is_kept(self, case: Case | None) -> bool:
        """Says whether there is no such case, or a known limit forbids it."""
        if case is None:
            return True
        return bool(self.interview.subject.refuses(case.make_problem(self.interview.dtype)))

    def _move_refused_case(self, places: Mapping[str, int]) -> Case | None:
        least = case_between(self.start, self.end, self.kept_keywords)
        return least.move_case(**places) if least else None

    def _refuses(self, places: Mapping[str, int]) -> bool:
        case = self._move_refused_case(places)
        return case is not None and bool(self.interview.refusal(case))


# Where along one axis a function begins to refuse


PLACES: Mapping[str, tuple[int, ...]] = {
    "B": (1, 2, 3, 4, 9, 33),
    "H": (1, 2, 3, 4, 7, 8, 16, 71, 128),
    "G": (1, 2, 3, 4, 6, 7, 8),
    "T": (1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100, 127, 128, 129, 256, 300),
    "S": (1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100, 127, 128, 129, 256, 300),
    "D": (1, 2, 3, 7, 8, 16, 24, 32, 33, 40, 64, 72, 80, 96, 112, 128, 160, 192, 255, 256),
}
"""The sizes that are asked along an axis that matters: around multiples, and those of models."""

FEW: Mapping[str, tuple[int, ...]] = {
    "B": (1, 3), "H": (1, 3, 8), "G": (1, 3), "T": (1, 8, 17, 64, 65, 128),
    "S": (1, 8, 17, 64, 65, 128),
    "D": (1, 8, 24, 33, 64, 72, 80, 96, 112, 128, 256)}
"""The same where each costs a compilation; one follows a multiple of 64, to tell steps."""

STEPS = (512, 256, 128, 64, 32, 16, 8, 4, 2)
LONGEST_LIST = 12


@dataclass(frozen=True, slots=True)
class AxisRefusals:
    """Finds the conditions under which a function refuses sizes along one axis.

    taken_sizes, refused_sizes: what is known so far.  refuses: asks about a size.  keeps: says
    whether there is no such size, or a known limit forbids it.
    """

    name: str
    taken_sizes: Sequence[int]
    refused_sizes: Sequence[int]
    refuses: Callable[[int], bool]
    keeps: Callable[[int], bool] = lambda _: False

    def conditions(self) -> tuple[RefusalCondition, ...]:
        """Returns the conditions of a refusal, any of which is enough."""
        if len(self.taken_sizes) == 1 and self._takes_size(twice := 2 * self.taken_sizes[0]):
            return replace(self, taken_sizes=(*self.taken_sizes, twice)).conditions()
        least, most = min(self.taken_sizes), max(self.taken_sizes)
        inner = [size for size in self.refused_sizes if least < size < most]
        if not inner:
            return tuple(self._ends(1))
        step = self._step()
        if all(size % step for size in inner):
            return RefusalCondition(self.name, "≠", 0, step), *self._ends(step)
        listed = self._list(inner)
        return (listed,) if listed.sign == "not in" else (listed, *self._ends(1))

    def _step(self) -> int:
        """Returns the largest step of all that is taken, unless half a step more is taken too."""
        dividing = (step for step in STEPS if all(size % step == 0 for size in self.taken_sizes))
        step = next(dividing, 1)
        while step > 1 and self._takes_size(min(self.taken_sizes) + step // 2):
            step //= 2
        return step

    def _takes_size(self, size: int) -> bool:
        return not self.keeps(size) and not self.refuses(size)

    def _ends(self, step: int) -> Iterator[RefusalCondition]:
        """Yields the sizes from which on it refuses, among the multiples of a step."""
        least, most = min(self.taken_sizes), max(self.taken_sizes)
        multiples = [size for size in self.refused_sizes if size % step == 0]
        below = [size for size in multiples if size < least]
        above = [size for size in multiples if size > most]
        if len(self.taken_sizes) == 1 and below and above and step == 1:
            yield RefusalCondition(self.name, "≠", least)
            return
        if below:
            edge = self._edge(least, max(below), step)
            sign, than = ("=", 1) if edge == 2 else ("<", edge)
            yield RefusalCondition(self.name, sign, than)
        if above:
            yield RefusalCondition(self.name, ">", self._edge(most, min(above), step))

    def _edge(self, taken: int, refused: int, step: int) -> int:
        """Returns the last multiple of the step that is taken, towards one that is refused."""
        while (middle := self._middle_size(taken, refused, step)) is not None:
            taken, refused = (taken, middle) if self.refuses(middle) else (middle, refused)
        return taken

    def _middle_size(self, taken: int, refused: int, step: int) -> int | None:
        """Returns the multiple of the step nearest to the middle within known limits."""
        sizes = range(taken, refused, step if refused > taken else -step)[1:]
        from_the_middle = sorted(sizes, key=lambda size: abs(2 * size - taken - refused))
        return next((size for size in from_the_middle if not self.keeps(size)), None)

    def _list(self, inner: Sequence[int]) -> RefusalCondition:
        """Lists the sizes that are taken, if all between are refused, or those refused."""
        taken = sorted(self.taken_sizes)
        unlisted = [(low + high) // 2 for low, high in pairwise(taken) if high - low > 1]
        if len(taken) <= LONGEST_LIST and all(map(self.refuses, unlisted)):
            return RefusalCondition(self.name, "not in", tuple(taken))
        if len(inner) > 1:
            return RefusalCondition(self.name, "in", tuple(inner))
        return RefusalCondition(self.name, "=", inner[0])
