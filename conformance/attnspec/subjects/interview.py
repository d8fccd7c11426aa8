"""Asks a function whether it takes a plain problem, and remembers what it said."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.core.nouns import DType
from attnspec.problems.problem import LayerProblem, Problem, Sizes
from attnspec.problems.rotary import RotaryProblem
from attnspec.subjects.exceptions import Topic, refusal_words
from attnspec.subjects.plain import Case
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer


@dataclass(slots=True)
class Interview:
    """A function at one dtype, and what it said: by the key of a case the words of its refusal, empty if it answered.

    An exception that is no clear refusal is no answer to what is asked here, and counts as none. origin: the exception
    that is looked for in the place of refusals, by its kind and line: where a function fails is found out likewise.
    """

    subject: Subject
    dtype: DType
    origin: str = ""
    _said: dict[tuple[Sizes, str], str] = field(default_factory=dict)

    def takes(self, case: Case) -> bool:
        """Whether the function answers, rightly or wrongly, and no limit keeps the case from it."""
        return self.answers(case.posed(self.dtype, self.subject.declaration.kind))

    def answers(self, problem: Problem | LayerProblem | RotaryProblem) -> bool:
        """The same of a problem as it lies in memory."""
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
        if case.key not in self._said:
            self._said[case.key] = self.refusal_now(case)
        return self._said[case.key]

    def lasting(self, case: Case) -> str:
        """The words of a refusal that comes again: what does not depends on something else than the case."""
        return self.refusal(case) if self.refusal(case) and self.refusal_now(case) else ""

    def refusal_now(self, case: Case, topic: Topic = Topic.CALL) -> str:
        """The same, asked anew. topic: what the refusal is to be about."""
        return self.refusal_of(case.posed(self.dtype, self.subject.declaration.kind), topic)

    def refusal_of(self, problem: Problem | LayerProblem | RotaryProblem, topic: Topic = Topic.CALL) -> str:
        """The same of a problem as it lies in memory."""
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

    def of(self, subject: Subject) -> Interview:
        """The same of the subject within other limits. What was said stands; what a limit kept away was not asked."""
        return Interview(subject, self.dtype, self.origin, dict(self._said))
