"""Asks a function whether it takes a plain problem, and remembers what it said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from attnspec.core.nouns import DType
from attnspec.core.rotary import EVERY_KEYWORD
from attnspec.problems.problem import LayerProblem, Problem, Sizes
from attnspec.problems.rotary import RotaryProblem
from attnspec.subjects.plain import Case
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer

ON_PURPOSE = frozenset(
    {"ValueError", "TypeError", "NotImplementedError", "AssertionError", "RuntimeError", "FlaxError"})
"""The exceptions by which code refuses; frameworks raise them, or subclasses of them, for shapes that do not fit. Flax
has a class of its own.
"""

OF_DTYPES = re.compile(r"d?type|float|half|double|precision|implement|support", re.IGNORECASE)
_OF_SHAPES = re.compile(r"shape|size|dim|length|head|group|broadcast|width|batch|causal|quer(y|ies)|\bkeys?\b|"
                        r"values?\b|\b[qkv]\b", re.IGNORECASE)
_OF_AXES = re.compile(r"\b[A-Z]\b")
_NAMED_AXES = re.compile(r"\b([BG]|[HTSDLN](q|kv?|v|qk)?|d_?(k|v|model)|bsz?)\b")
OF_LAYOUTS = re.compile(r"contiguous|strid", re.IGNORECASE)


def refusal_in(raised: SubjectRaised, problem: Problem | LayerProblem | RotaryProblem, *,
               about: re.Pattern[str] | None = None) -> str:
    """The words of a clear refusal of sizes or keywords, or else of what it is about; empty for any other exception."""
    is_mute = ": " not in raised.summary  # a bare `assert` says what its code says
    told = f"{raised.summary}: {raised.statement}" if is_mute else raised.summary
    is_told = bool(about.search(told)) if about else any(_speaks(told, problem, is_code=is_mute))
    return told if is_told and raised.classes & ON_PURPOSE else ""


def _speaks(told: str, problem: Problem | LayerProblem | RotaryProblem, *, is_code: bool) -> Iterator[bool]:
    """Whether a message names what it is about: a parameter, an axis (in code any letter), or one of the lengths."""
    message = told.partition(": ")[2]
    yield is_code and message.startswith("assert") and bool(_OF_AXES.search(message))
    lengths = {str(size) for axis, size in problem.sizes.by_axis.items() if axis != "B"}
    yield bool(_OF_SHAPES.search(message)) or (not is_code and bool(_NAMED_AXES.search(message)))
    yield bool(lengths & set(re.findall(r"\d+", message)))
    parameters = (name for word in problem.keywords for name in (word, *EVERY_KEYWORD[word].parameters))
    yield any(re.search(rf"\b{name.replace('_', '.?')}", message, re.IGNORECASE) for name in parameters)


@dataclass(slots=True)
class Interview:
    """A function at one dtype, and what it said: by the key of a case the words of its refusal, empty if it answered.

    An exception that is no clear refusal is no answer to what is asked here, and counts as none.
    """

    subject: Subject
    dtype: DType
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

    def refusal_now(self, case: Case, *, about: re.Pattern[str] | None = None) -> str:
        """The same, asked anew; about: what else than sizes and keywords it may be about."""
        return self.refusal_of(case.posed(self.dtype, self.subject.declaration.kind), about=about)

    def refusal_of(self, problem: Problem | LayerProblem | RotaryProblem, *,
                   about: re.Pattern[str] | None = None) -> str:
        """The same of a problem as it lies in memory."""
        if self.subject.refuses(problem):
            return ""
        try:
            self.subject.answer_any(problem)
        except UnusableAnswer:
            return ""
        except SubjectRaised as raised:
            return refusal_in(raised, problem, about=about)
        return ""

    def of(self, subject: Subject) -> Interview:
        """The same of the subject within other limits. What was said stands; what a limit kept away was not asked."""
        return Interview(subject, self.dtype, dict(self._said))
