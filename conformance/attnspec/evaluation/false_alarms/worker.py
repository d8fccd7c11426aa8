"""Where blocks are judged: in a worker, one after the other. Subjects of one class share what the definition says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Kind
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import summon
from attnspec.evaluation.false_alarms.blocks import Block, judge_block
from attnspec.faults.catalogue import CATALOGUE
from attnspec.numerics.expectation import Expectation
from attnspec.record.measurements import BlockJudged
from attnspec.record.outcome import SubjectCard
from attnspec.spec.clause import Spec
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.evaluator import Archive, Evaluator, Memory
from attnspec.vocabulary.scene import AnyProblem

MOST = 4096
"""Problems and expectations that are kept: those of one block."""


class BlockWorker:
    """Judges blocks, and remembers subjects, their conventions, and what is right about the block at hand."""

    def __init__(self, plan: Plan, spec: Spec, recipes: int, breadcrumb: Callable[[str], None]) -> None:
        self._plan, self._spec, self._recipes, self._breadcrumb = plan, spec, recipes, breadcrumb
        self._subjects: dict[str, Subject] = {}
        self._conventions: dict[tuple[str, DType], Mapping[str, str]] = {}
        self._block: Block | None = None
        self._problems: dict[Limits | None, Memory[AnyProblem]] = {}
        self._told_alike, self._expectations = "", Memory[Expectation](MOST)

    @cached_property
    def _checks(self) -> Mapping[str, Check]:
        return compile_spec(self._spec, faults=CATALOGUE.keys())

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject. Raises AttnspecError where it cannot be had."""
        return self._subject(target).card({}, {})

    def judge(self, target: str, dtype: DType, number: int) -> BlockJudged:
        """One block. Raises AttnspecError where the subject cannot be had."""
        block, subject = Block(dtype, number, self._plan.seed, self._recipes), self._subject(target)
        judged = judge_block(block, self._evaluator(subject, block), self._checks, self._breadcrumb)
        subject.lift.forget()
        return judged

    def _subject(self, target: str) -> Subject:
        if target not in self._subjects:
            self._subjects[target] = summon(target, self._plan)
        return self._subjects[target]

    def _evaluator(self, subject: Subject, block: Block) -> Evaluator:
        plain = Evaluator(subject, block.dtype, self._conventions.get((subject.id, block.dtype)))
        self._conventions[subject.id, block.dtype] = plain.conventions
        return Evaluator(subject, block.dtype, plain.conventions, archive=self._shared(plain, block))

    def _shared(self, evaluator: Evaluator, block: Block) -> Archive:
        """Problems, for the whole block; what the definition says of them, for neighbours whom it tells the same."""
        if block != self._block:
            self._block, self._problems = block, {}
        declared = evaluator.subject.declaration
        limits = declared.limits if declared.kind is Kind.LAYER else None  # a layer's biases and its scale follow them
        told_alike = repr((block, replace(evaluator.precision, reason=""), heeded(evaluator.conventions), limits))
        if told_alike != self._told_alike:
            self._told_alike, self._expectations = told_alike, Memory(MOST)
        return Archive(self._problems.setdefault(limits, Memory(MOST)), self._expectations)


def heeded(conventions: Mapping[str, str]) -> tuple[str, str, str]:
    """What the definition and the transforms heed of a subject's conventions.

    Not what it does with rows that see nothing: those are in no expectation. And who refuses mask and causal flag
    together, or promises nothing of them, is not given both, so that for what is given they hold together.
    """
    joined = conventions.get("mask_with_causal", "")
    return (conventions.get("causal_alignment", ""), conventions.get("grouped_heads", ""),
            joined if joined in {"mask", "causal"} else "both")
