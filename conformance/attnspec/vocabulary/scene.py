"""How a problem is put to a subject, and a scene: one case with all that was seen in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from attnspec.core.nouns import DType
from attnspec.host.lifts.making import FormNotMade
from attnspec.numerics.expectation import Expectation
from attnspec.numerics.precision import Precision, StoredForm
from attnspec.numerics.score import Drifts
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, LayerProblem, Problem
from attnspec.questions.undeclared import RangeFound
from attnspec.subjects.subject import NotDifferentiated, Subject, SubjectAnswer

AnyProblem = Problem | LayerProblem | RotaryProblem
P = TypeVar("P", Problem, LayerProblem, RotaryProblem)
Axis = Literal["B", "H", "T", "S", "Dv"]

NO_VARIANT = "it declares no variant"
"""Why nothing is compared of a subject that has no switch."""


class NoClaim(Exception):  # noqa: N818  (no error: such cases are counted)
    """A case says nothing: a transform is not exact in the dtype, or nothing can be drawn."""


class Incomparable(Exception):  # noqa: N818  (no error of the code: the clause compares what differs in shape)
    """A relation compares runs of different shapes: what is wrong is the clause."""


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """A reordering: along `axis`, entry i is compared as entry `index[i]` of what was observed."""

    axis: Axis
    index: Array

    def read(self, array: Array, axes: tuple[str, ...]) -> Array:
        """The observed array, any shape with these axes, in the order that relations compare."""
        return np.take(array, self.index, axis=axes.index(self.axis)) if self.axis in axes else array


@dataclass(frozen=True, slots=True, eq=False)
class Posed(Generic[P]):
    """Problems that belong together: their answers are joined along `join`, or summed, and read
    back.

    before: problems that are put first, and whose answers are thrown away.  fresh: no remembered
    answer may be used.  key: the run's name, of recipe and transforms.  conventions: those that
    the subject is held to.  precision: the subject's class of arithmetic.
    """

    parts: tuple[P, ...]
    join: Axis | Literal["sum"] = "B"
    back: tuple[Back, ...] = ()
    before: tuple[P, ...] = ()
    fresh: bool = False
    key: str = ""
    conventions: Mapping[str, str] = field(default_factory=dict)
    precision: Precision | None = None

    @property
    def stored(self) -> Mapping[str, StoredForm]:
        """By array, the format in which the subject stores it, if another than its own."""
        return self.precision.stored_formats if self.precision is not None else {}

    @property
    def one(self) -> P:
        """The problem of a run of one part."""
        (problem,) = self.parts
        return problem

    def but(self, **changes: object) -> Posed[P]:
        """The same with fields of every part replaced."""
        return replace(self, parts=tuple(part.but(**changes) for part in self.parts))

    def reading(self, axis: Axis, index: Array) -> Posed[P]:
        """The same, read back by one more reordering, which is undone first.

        index: which entries along the axis are compared, (T,) along T.
        """
        return replace(self, back=(Back(axis, np.asarray(index)), *self.back))


class OutsideLimits(Exception):  # noqa: N818  (no error: such cases are counted)
    """A run lies outside what the subject declares to take."""


class AnyEvaluator(Protocol):
    """Puts problems to the subject and to the definition, and remembers both by key."""

    @property
    def subject(self) -> Subject:
        """The subject on this evaluator."""

    @property
    def precision(self) -> Precision:
        """The subject's class of arithmetic: where it rounds, as it declares."""

    def ask(self, problem: AnyProblem, key: str, *, fresh: bool) -> SubjectAnswer:
        """The subject's answer; remembered under the key unless it must be fresh."""

    def expect(self, problem: AnyProblem, key: str, part: str) -> Expectation:
        """What the definition says, with allowances.

        part: what is needed of it: output, weights, logits.
        """

    def expect_dropped(self, problem: Problem, factor: Array, part: str) -> Expectation:
        """What the definition says of the output (B,H,T,Dv), or of gradients, with these weights
        dropped.

        factor (B,H,T,S): what weights are multiplied by.
        """

    def expect_rows(self, problem: Problem, rows: Array) -> Expectation:
        """What the definition says of the output at some rows, (B,H,T,Dv), with T rows; sharp.

        rows: indices along T. What is said of all rows of a large problem is not sharp.
        """

    def unit(self) -> float:
        """The unit roundoff of what the subject returns."""

    def with_precision(self, precision: Precision) -> AnyEvaluator:
        """The same subject, its answers remembered, held to another class of arithmetic."""

    @property
    def probed_conventions(self) -> Mapping[str, str]:
        """The conventions that a probe finds, whatever is declared."""

    @property
    def ranges(self) -> tuple[RangeFound, ...]:
        """The largest logits, values and key counts without overflow in a half dtype, as probed."""

    def drifts(self, key: str, make: Callable[[], Drifts]) -> Drifts:
        """The directions in which drifts push what the definition says of a problem."""

    def values_by_head(self, problem: Problem) -> Array:
        """The values with one head for each query head, (B,H,S,Dv)."""

    def form_evaluator(self, form: str) -> AnyEvaluator:
        """The same evaluator for a form that attnspec has a framework make."""

    def variants(self) -> Mapping[str, AnyEvaluator]:
        """The same evaluator for each variant of the subject (a hidden switch flipped)."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedRun:
    """What was observed of a run, and what the definition says of it; all arrays have one shape.

    array: what the subject shows.  truth, allowance, claimed: what is due, how far an honest array
    may lie from it, and where.  is_screened: whether the problem is so large that only its closest
    rows are held to the sharp bound, and all others to one that is no smaller.
    """

    array: Array
    truth: Array
    allowance: Array
    claimed: Array
    is_screened: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """An array as the subject showed it, the names of its axes, and the arrays of its parts."""

    array: Array
    axes: tuple[str, ...]
    parts: tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of two arrays that a relation compares: its name ("output of `reordered`"), its run."""

    name: str
    run: str
    array: Array


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a relation compared, to be drawn: arrays of one shape with these axes.

    index: the worst entry in these arrays.  first_row: the number of their first row in the whole
    array.
    """

    margin: float
    index: tuple[int, ...]
    axes: tuple[str, ...]
    seen: Side
    expected: Side
    claimed: Array
    wrong: Array
    first_row: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One case: what a relation may look at.

    cases: among how many cases of a clause a rate of false alarms is shared out.  compiles:
    whether variants that compile are asked in this case.  kept: what the relations compared, if it
    is to be drawn.
    """

    subject: Subject
    dtype: DType
    conventions: Mapping[str, str]
    runs: Mapping[str, Posed[Any]]
    evaluator: AnyEvaluator
    drawn: Mapping[str, int] = field(default_factory=dict)
    cache: dict[tuple[str, str], Any] = field(default_factory=dict)
    cases: int = 1
    compiles: bool = True
    kept: list[Compared] | None = None

    def problem(self, run: str) -> Any:  # noqa: ANN401  (Problem or LayerProblem: the clause knows)
        """The problem of a run of one part."""
        return self.runs[run].one

    def answers(self, posed: Posed[Any]) -> tuple[SubjectAnswer, ...]:
        """The subject's answers to a run's parts, after earlier calls. Raises OutsideLimits."""
        for problem in (*posed.before, *posed.parts):
            if reason := self.subject.refuses(problem):
                raise OutsideLimits(reason)
        try:
            for problem in posed.before:
                self.evaluator.ask(problem, "", fresh=True)
            return tuple(self.evaluator.ask(part, f"{posed.key}#{index}", fresh=posed.fresh)
                         for index, part in enumerate(posed.parts))
        except (NotDifferentiated, FormNotMade) as undefined:
            raise OutsideLimits(str(undefined)) from None

    def variants(self) -> Mapping[str, AnyEvaluator]:
        """The evaluators of the variants in this case. Raises OutsideLimits without any."""
        declared, evaluators = self.subject.declaration.variants, self.evaluator.variants()
        if not evaluators:
            raise OutsideLimits(NO_VARIANT)
        return {name: evaluator for name, evaluator in evaluators.items()
                if self.compiles or not declared[name].compiles}

    def before_evaluator(self, evaluator: AnyEvaluator) -> Scene:
        """The same case before another evaluator."""
        return Scene(evaluator.subject, self.dtype, self.conventions, self.runs, evaluator, self.drawn,
                     cases=self.cases)
