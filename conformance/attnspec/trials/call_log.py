"""What a subject answered, call by call, so that others can be put the very same calls."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import joined
from attnspec.subjects.subject import (
    NotDifferentiated,
    Subject,
    SubjectAnswer,
    SubjectDied,
    SubjectRaised,
    UnusableAnswer,
)
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary.scene import AnyProblem

_SHAPE = re.compile(r"of shape (\([\d, ]*\))")


class Ending(enum.Enum):
    """How a call ended."""

    ANSWERED = "answered"
    RAISED = "raised"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, eq=False)
class LoggedCall:
    """One call and what came of it. variant: the hidden switch that was flipped, "" for none.

    shape: of an unusable answer, in words; "" where it has none.  raised: the exception in a line, if there was one.
    """

    problem: AnyProblem
    variant: str
    ending: Ending
    answer: SubjectAnswer | None = None
    shape: str = ""
    exception_text: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether what was returned still holds what it held then. Ask when all calls are made."""
        return self.answer is None or self.answer.is_kept()

    @property
    def let_go(self) -> LoggedCall:
        """The call without the subject's own memory of the answer: whether that is kept is not to be asked."""
        return self if self.answer is None else replace(self, answer=replace(self.answer, is_kept=lambda: True))

    @property
    def answer_given(self) -> SubjectAnswer:
        """The answer of a call that ended with one."""
        assert self.answer is not None
        return self.answer


def log_call(subject: Subject, problem: AnyProblem, variant: str = "") -> LoggedCall:
    """Put a problem to a subject, or to its variant, and note how it ends."""
    asked = subject.variants.get(variant, subject)
    try:
        with np.errstate(all="ignore"):
            answer = asked.answer_any(problem)
    except NotDifferentiated as ended:  # a fault without a backward pass, asked for gradients
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=str(ended))
    except (SubjectRaised, SubjectDied, UnusableAnswer) as ended:
        return _unanswered(problem, variant, ended)
    return LoggedCall(problem, variant, Ending.ANSWERED, answer)


def _unanswered(problem: AnyProblem, variant: str, ended: SubjectRaised | SubjectDied | UnusableAnswer) -> LoggedCall:
    if isinstance(ended, SubjectDied):
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=str(ended))
    if isinstance(ended, SubjectRaised):
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=ended.summary)
    shape = _SHAPE.search(ended.sentence)
    return LoggedCall(problem, variant, Ending.UNUSABLE, shape=shape[1] if shape else "")


def is_poisoned(problem: AnyProblem) -> bool:
    """Whether NaN or infinity stands among the keys or values that are handed over, or in what is to be turned."""
    if isinstance(problem, RotaryProblem):
        return not np.isfinite(problem.x).all()
    whole = joined(problem)
    return not all(np.isfinite(array).all() for array in (whole.key, whole.value))


class LoggingEvaluator(Evaluator):
    """An evaluator that notes every call of the subject and of its variants; else it is like another evaluator."""

    def __init__(self, subject: Subject, like: Evaluator, log: list[LoggedCall], variant: str = "") -> None:
        super().__init__(subject, like.dtype, like.conventions, archive=None if variant else like.archive)
        self._log, self._variant = log, variant
        if subject is like.subject:
            self._ranges = like._ranges

    def _ask(self, problem: AnyProblem) -> SubjectAnswer:
        try:
            answer = super()._ask(problem)
        except (SubjectRaised, SubjectDied, UnusableAnswer) as ended:
            self._log.append(_unanswered(problem, self._variant, ended))
            raise
        self._log.append(LoggedCall(problem, self._variant, Ending.ANSWERED, answer))
        return answer

    @cached_property
    def _variants(self) -> dict[str, Evaluator]:
        return {name: LoggingEvaluator(variant, self, self._log, name)
                for name, variant in self.subject.variants.items()}
