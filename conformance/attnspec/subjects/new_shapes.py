"""Finds out whether a function compiles anew for each shape, as one under `jax.jit` or `torch.compile` does."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from attnspec.core.compiling import NEW_TO_OLD
from attnspec.core.nouns import DType
from attnspec.spec.clause import first_of
from attnspec.subjects.call import Call
from attnspec.subjects.plain import PLAIN, Case
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer

LENGTHS = (48, 80)
"""T and S of the two new shapes: who compiles for one and not for the other has another reason to be slow once."""

AGAIN = 20
"""So often a call is made again, since the system counts in hundredths of a second."""

SLOW = 0.05
"""Seconds of processors a call, from which on a compiler is worth asking about."""


TELLING = 2
"""So many shapes at which calls were made again tell a compiler from a first call that happens to be slow."""


@dataclass(slots=True)
class ShapeTimes:
    """How long calls took: the first at each shape, and the fastest after it. A compiler runs in the first alone."""

    _first: dict[Hashable, float] = field(default_factory=dict)
    _repeat_times: dict[Hashable, float] = field(default_factory=dict)

    def count(self, whose: int, call: Call, seconds: float) -> None:
        """Counts a call. whose: tells the function from its variants."""
        shapes = tuple((name, array.shape, array.strides) for name, array in call.named_arrays.items())
        flags = tuple(sorted(name for name, value in call.keywords.items() if value is True))
        shape = (whose, call.dtype, shapes, flags, call.wrt, call.form)
        if shape in self._first:
            self._repeat_times[shape] = min(seconds, self._repeat_times.get(shape, seconds))
        else:
            self._first[shape] = seconds

    @property
    def compiling(self) -> float:
        """Seconds that a compiler has taken: all slow first calls, if those at shapes that came again were slow
        but once.
        """
        slow = {shape: seconds for shape, seconds in self._first.items() if seconds >= SLOW}
        again = [slow[shape] >= NEW_TO_OLD * seconds for shape, seconds in self._repeat_times.items() if shape in slow]
        is_compiler = sum(again) >= TELLING and 2 * sum(again) > len(again)
        return sum(slow.values()) if is_compiler else 0.0


def with_compiling(subject: Subject) -> Subject:
    """The subject, said to compile for each shape where a new one costs so much more than one that is known. What it
    declares stands.
    """
    declared = subject.declaration
    if declared.compiles is not None or declared.is_compiled or not _compiles(subject, first_of(declared.dtypes)):
        return subject
    return replace(subject, declaration=replace(declared, compiles=True))


def _compiles(subject: Subject, dtype: DType) -> bool:
    return all(_is_dear(subject, dtype, length) for length in LENGTHS)


def _is_dear(subject: Subject, dtype: DType, length: int) -> bool:
    """Whether the first call at a length takes so many times what the next ones take."""
    new = _seconds(subject, dtype, length, 1)
    if new is None or new < SLOW:
        return False
    once = _seconds(subject, dtype, length, 1)
    if once is None or NEW_TO_OLD * once > AGAIN * new:  # as slow again: not to be asked twenty times
        return False
    often = _seconds(subject, dtype, length, AGAIN)
    return often is not None and NEW_TO_OLD * often / AGAIN <= new


def _seconds(subject: Subject, dtype: DType, length: int, calls: int) -> float | None:
    """Seconds of processors that so many calls take; None where the function does not answer."""
    causal = {"causal": True} if subject.declaration.limits.causal_only else {}
    problem = Case(replace(PLAIN, T=length, S=length), causal).pose_problem(dtype, subject.declaration.kind)
    if subject.refuses(problem):
        return None
    before = subject.callee.cpu_seconds()
    try:
        for _ in range(calls):
            subject.answer_any(problem)
    except (SubjectRaised, UnusableAnswer):
        return None
    return subject.callee.cpu_seconds() - before
