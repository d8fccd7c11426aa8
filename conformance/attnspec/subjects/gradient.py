"""How a subject's output depends on its inputs, by the framework's own differentiation."""

from __future__ import annotations

from dataclasses import replace

from attnspec.problems.problem import Array, Problem
from attnspec.subjects.subject import Subject

Gradients = tuple[Array, ...]


def gradients(subject: Subject, problem: Problem, rows: Array) -> Gradients | None:
    """The gradient of the sum of some rows of the output with respect to query, key and value, as they are handed over:
    (B,·,L,·), of a layer (B,L,M). rows: (T,) bool. None where the output has none: the subject computes without.

    Raises SubjectRaised, UnusableAnswer; ValueError where the subject refuses the problem.
    """
    kept: list[Gradients | None] = []

    def traced(*inputs: object, **keywords: object) -> object:
        output, pulled = subject.lift.gradients(lambda *given: subject.function(*given, **keywords), inputs, rows)
        kept.append(pulled)
        return output

    replace(subject, function=traced).answer(problem)
    return kept[0]
