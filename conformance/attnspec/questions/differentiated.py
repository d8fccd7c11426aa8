"""Asks a subject for gradients besides its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attnspec.problems.problem import Array, Problem
from attnspec.subjects.call import Call
from attnspec.subjects.callee import Callee
from attnspec.subjects.subject import Subject, SubjectAnswer

Gradients = tuple[Array, ...]


def gradients(subject: Subject, problem: Problem, rows: Array) -> Gradients | None:
    """The gradient of the sum of some rows of the output with respect to query, key and value, as they are handed over:
    (B,·,L,·), of a layer (B,L,M). rows: (T,) bool. None where the output has none: the subject computes without.

    Raises SubjectRaised, UnusableAnswer; ValueError where the subject refuses the problem.
    """
    return replace(subject, callee=_Differentiated(subject.callee, rows)).answer(problem).gradients


@dataclass(frozen=True, slots=True)
class _Differentiated:
    """A callee that is asked for gradients with every answer. rows: of the output, (T,) bool."""

    callee: Callee
    rows: Array

    def perform(self, call: Call, rows: Array | None = None) -> SubjectAnswer:
        """The answer with gradients; rows (T,)."""
        return self.callee.perform(call, self.rows if rows is None else rows)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)
