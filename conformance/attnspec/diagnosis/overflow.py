"""Exponentials of the raw logits: a softmax that leaves the range of its format since no maximum is subtracted.

The format in which a function takes exp is its own affair, and so is what it makes of 0/0, so that no fault of the
catalogue answers as all such functions do. What they have in common is read off: equal logits weigh the same wherever
they lie, and here they do not once their exponential overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.core.nouns import DType
from attnspec.diagnosis.locate import Reader, SeenAnswer
from attnspec.diagnosis.tolerance import ComparisonStandard
from attnspec.numerics.expectation import lowered
from attnspec.numerics.operands import operands_of
from attnspec.numerics.reference import attend
from attnspec.problems.problem import Array, LayerProblem, Problem
from attnspec.problems.rotary import RotaryProblem
from attnspec.trials.call_log import Ending, LoggedCall
from attnspec.vocabulary.scene import AnyProblem, working

WITHOUT_MAXIMUM = "softmax_without_maximum"
"""The fault of the catalogue."""

FORMATS = (np.float16, np.float32, np.float64)
"""In which exp may be taken, the narrowest first; bfloat16 has the range of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class RawExponentials:
    """A subject that takes exp of the raw logits in a format."""

    bar: ComparisonStandard
    format: np.finfo[Any]

    @classmethod
    def measure_subject(cls, bar: ComparisonStandard, dtype: DType) -> RawExponentials | None:
        """Put equal logits to the subject, beyond the range of one format after the other; None if all weigh alike."""
        reader = Reader(bar, dtype)
        at_zero = _of_equal_logits(reader, 0.0)
        if at_zero is None or not at_zero.is_right:
            return None
        formats = (np.finfo(each) for each in FORMATS)
        return next((cls(bar, each) for each in formats if _overflows(reader, each)), None)

    def wrong_calls(self, log: Sequence[LoggedCall]) -> int:
        """How many calls are answered wrongly; 0 if one is wrong in a row whose exponentials fit the format."""
        with np.errstate(all="ignore"):
            wrong = [(rows, self._find_overflowing_rows(step.problem)) for step in log
                     if step.ending is Ending.ANSWERED and (rows := self._wrong_rows(step)).any()]
        return 0 if any((rows & ~beyond).any() for rows, beyond in wrong) else len(wrong)

    def _wrong_rows(self, step: LoggedCall) -> Array:
        """(B,H,T), of a layer (B,T): rows of the output that are not right."""
        expected = self.bar.expectation_for(step.problem, self.bar.precision)
        gap = np.abs(working(step.answer_given.output, step.problem.dtype) - expected.output)
        return np.asarray(~(gap <= expected.output_allowance).all(axis=-1) & expected.output_claimed)

    def _find_overflowing_rows(self, problem: AnyProblem) -> Array:
        """(B,H,T), of a layer (B,T): rows whose sum of exponentials overflows, or is no normal number."""
        assert not isinstance(problem, RotaryProblem)  # no fault of attention stands for one
        if isinstance(problem, LayerProblem):
            return np.asarray(self._rows_beyond(lowered(problem), None).any(axis=1))
        return self._rows_beyond(problem, self.bar.subject.scale_width(problem))

    def _rows_beyond(self, problem: Problem, scale_width: int | None) -> Array:
        """(B,H,T)."""
        operands = operands_of(problem, self.bar.conventions, scale_width, None)
        logits = attend(operands, np.float64).logits
        top = np.where(operands.seen(), logits, -np.inf).max(axis=-1, initial=-np.inf)
        highest = np.log(float(self.format.max) / problem.sizes.S)
        return np.asarray((top > highest) | (top < np.log(float(self.format.tiny))))


def _overflows(reader: Reader, format: np.finfo[Any]) -> bool:
    """Whether equal logits whose exponential is beyond a format give an answer that is not finite."""
    sight = _of_equal_logits(reader, 2.0 ** np.ceil(np.log2(np.log(float(format.max)))))
    return sight is not None and not np.isfinite(sight.seen_array).all()


def _of_equal_logits(reader: Reader, logit: float) -> SeenAnswer | None:
    """What the subject answers where all logits are the same number, to be a power of two or zero."""
    problem = reader.problem("causal" if reader.bar.subject.declaration.limits.causal_only else "")
    query, key = np.zeros_like(problem.query), np.zeros_like(problem.key)
    query[..., 0], key[..., 0] = logit, np.sqrt(reader.bar.subject.scale_width(problem))
    return reader.look(problem.but(query=query, key=key))
