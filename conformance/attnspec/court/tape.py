"""What a subject answered, call by call, so that others can be put the very same calls."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from attnspec.court.bench import SubjectBench
from attnspec.faults.fault import Fault
from attnspec.faults.layer import LayerCall, LayerStages, as_layer, both, run_layer
from attnspec.faults.staged import Answer as Returned
from attnspec.faults.staged import Attend
from attnspec.faults.staged import Call as StagedCall
from attnspec.ground.declaration import Limits
from attnspec.ground.nouns import Kind
from attnspec.problems.problem import Array, Problem
from attnspec.subjects.lifts.lift import NoLift
from attnspec.subjects.subject import Answer, Subject, SubjectRaised, UnusableAnswer
from attnspec.vocabulary.posed import AnyProblem

_SHAPE = re.compile(r"of shape (\([\d, ]*\))")


class Ending(enum.Enum):
    """How a call ended."""

    ANSWERED = "answered"
    RAISED = "raised"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One call and what came of it. variant: the hidden switch that was flipped, "" for none.

    shape: of an unusable answer, in words; "" where it has none.
    """

    problem: AnyProblem
    variant: str
    ending: Ending
    answer: Answer | None = None
    shape: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether what was returned still holds what it held then. Ask when all calls are made."""
        returned = None if self.answer is None else self.answer.returned
        return returned is None or returned[0].tobytes() == returned[1].tobytes()

    @property
    def given(self) -> Answer:
        """The answer of a call that ended with one."""
        assert self.answer is not None
        return self.answer


def put(subject: Subject, problem: AnyProblem, variant: str = "") -> Step:
    """Put a problem to a subject, or to its variant, and note how it ends."""
    asked = subject.variants.get(variant, subject)
    try:
        with np.errstate(all="ignore"):
            answer = asked.answer(problem) if isinstance(problem, Problem) else asked.answer_layer(problem)
    except (SubjectRaised, UnusableAnswer) as ended:
        return _unanswered(problem, variant, ended)
    return Step(problem, variant, Ending.ANSWERED, answer)


def _unanswered(problem: AnyProblem, variant: str, ended: SubjectRaised | UnusableAnswer) -> Step:
    if isinstance(ended, SubjectRaised):
        return Step(problem, variant, Ending.RAISED)
    shape = _SHAPE.search(ended.sentence)
    return Step(problem, variant, Ending.UNUSABLE, shape=shape[1] if shape else "")


class TapedBench(SubjectBench):
    """A bench that notes every call of the subject and of its variants; else it is like another bench."""

    def __init__(self, subject: Subject, like: SubjectBench, tape: list[Step], variant: str = "") -> None:
        super().__init__(subject, like.dtype, like.conventions, archive=None if variant else like.archive)
        self._tape, self._variant = tape, variant

    def _ask(self, problem: AnyProblem) -> Answer:
        try:
            answer = super()._ask(problem)
        except (SubjectRaised, UnusableAnswer) as ended:
            self._tape.append(_unanswered(problem, self._variant, ended))
            raise
        self._tape.append(Step(problem, self._variant, Ending.ANSWERED, answer))
        return answer

    @cached_property
    def _variants(self) -> dict[str, SubjectBench]:
        return {name: TapedBench(variant, self, self._tape, name)
                for name, variant in self.subject.variants.items()}


def replayed(subject: Subject, tape: Iterable[Step]) -> Iterator[Step]:
    """The same calls put to another subject, one after the other."""
    return (put(subject, step.problem, step.variant) for step in tape)


def in_dock(fault: Fault, subject: Subject) -> Subject:
    """The fault, freshly made, in the place of the subject: under its declaration and with its variants."""
    function = fault.function
    other = fault.other_path() if fault.other_path else function
    fitted = partial(_fitted, fault, subject)
    variants = {name: replace(variant, function=fitted(other), lift=NoLift())
                for name, variant in subject.variants.items()}
    return replace(subject, function=fitted(function), lift=NoLift(), variants=variants)


def _fitted(fault: Fault, subject: Subject, function: Callable[..., Returned]) -> Callable[..., Returned]:
    """The fault's function with the signature and the form of answer of the subject."""
    limits = subject.declaration.limits
    if subject.declaration.kind is not Kind.LAYER:
        return function
    layer = as_layer(partial(_as_layer, function)) if fault.kind is Kind.ATTENTION else function
    return partial(_answered, layer, limits)


def _as_layer(function: Attend, call: LayerCall) -> Returned:
    """A layer around an attention."""
    def attend(inner: StagedCall, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (the stage's signature)
        return both(function(inner.query, inner.key, inner.value, mask=inner.mask, bias=inner.bias,
                             causal=inner.causal, return_weights=True))
    return run_layer(call, LayerStages(attend=attend))


def _answered(layer: Callable[..., Returned], limits: Limits, query: Array, key: Array, value: Array, *,
              params: Mapping[str, Array], heads: int, **keywords: object) -> Returned:
    """A layer's answer; an output projection that the subject does not have is the identity."""
    answer = layer(query, key, value, params=_with_output(params), heads=heads, **keywords)
    is_summed_up = isinstance(answer, tuple) and limits.weights == "averaged" and answer[1].ndim == 4
    return (answer[0], answer[1].mean(axis=1)) if is_summed_up else answer


def _with_output(params: Mapping[str, Array]) -> Mapping[str, Array]:
    if "w_out" in params:
        return params
    groups = params["w_query"].shape[1] // params["w_key"].shape[1]
    width = params["w_value"].shape[1] * groups
    return {**params, "w_out": np.eye(width, dtype=params["w_value"].dtype)}
