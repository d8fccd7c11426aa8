"""Whether a function refuses arrays that are not contiguous: it is asked with a plain problem that lies otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from attnspec.core.declaration import Limits
from attnspec.problems.problem import Array, Problem
from attnspec.problems.views import heads_last, with_gaps
from attnspec.subjects.exceptions import Topic
from attnspec.subjects.interview import Interview
from attnspec.subjects.misfits import GAPS, STRIDED, is_contiguous
from attnspec.subjects.plain import Case
from attnspec.subjects.subject import Subject


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A layout of arrays in memory: its name, a view of an array that lies so, and the limit of who refuses it."""

    name: str
    view: Callable[[Array], Array]
    within: Callable[[Limits], Limits]


LAYOUTS = (MemoryLayout(STRIDED, heads_last, lambda limits: replace(limits, contiguous=True)),
           MemoryLayout(GAPS, with_gaps, lambda limits: replace(limits, contiguous_features=True)))


def with_layouts(interview: Interview, start: Case) -> Subject:
    """The subject with the limit of the first of the layouts that it refuses clearly, if it refuses any.

    start: a plain problem that it takes, of several heads and queries: of one, all layouts are the same.
    """
    subject, plain = interview.subject, start.problem(interview.dtype)
    for layout in LAYOUTS:
        laid = _laid(plain, layout.view)
        if is_contiguous(laid):
            continue
        if words := interview.refusal_of(laid, Topic.LAYOUT):
            limits = layout.within(subject.declaration.limits)
            return replace(subject, declaration=replace(subject.declaration, limits=limits),
                           refused={**subject.refused, layout.name: words})
    return subject


def _laid(problem: Problem, view: Callable[[Array], Array]) -> Problem:
    """The problem with query, key and value, (B,H,T,D) and their like, as views that lie otherwise."""
    return problem.but(query=view(problem.query), key=view(problem.key), value=view(problem.value))
