"""Which clause convicts which fault at which dtype: every fault put to every clause that applies to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnspec.core.errors import CANNOT_RUN, CONFORMS
from attnspec.core.nouns import DType
from attnspec.core.plan import FAULT, Conclusion, JobFailure, Plan
from attnspec.record.events import Conviction, Done, RunStarted, SubjectPut
from attnspec.spec.clause import EFFORT, SEED, Refutations, Spec
from attnspec.spec.load import load_spec

from evaluation.power.jobs import Measurement

if TYPE_CHECKING:
    from attnspec.trials.compile import Check

MATRIX = "evaluation.power.matrix:MatrixDocket"
_DONE = "done"


def skip_done(plan: Plan, done: Iterable[SubjectPut]) -> Plan:
    """The plan less what is done already."""
    return replace(plan, more={_DONE: tuple(f"{put.subject}-{put.dtype.value}" for put in done)})


class MatrixDocket:
    """Puts faults to clauses, each a rule of its own: the record names those that convict, and in how many cases."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb
        self.spec: Spec = load_spec(Path(plan.spec) if plan.spec else None)

    def items(self) -> tuple[Measurement, ...]:
        """By dtype, so that a worker's neighbours share problems and what the definition says of them."""
        return tuple(Measurement(target, dtype.value, SEED)
                     for dtype in self.plan.dtypes for target in self.plan.targets
                     if f"{target}-{dtype.value}" not in self.plan.more[_DONE] and not self._equivalent(target, dtype))

    @staticmethod
    def _equivalent(target: str, dtype: DType) -> bool:
        from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy)

        return dtype in fault_named(target.removeprefix(FAULT)).equivalents

    def header(self, blank: RunStarted) -> RunStarted:
        """As it is."""
        return blank

    def card(self, _target: str) -> None:
        """A fault needs none."""

    @cached_property
    def _law(self) -> Mapping[str, Check]:
        from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
        from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)

        return compile_spec(self.spec, faults=CATALOGUE.keys())

    @property
    def _checks(self) -> Mapping[str, Check]:
        return {name: check for name, check in self._law.items() if name in (self.plan.clauses or self._law)}

    def carry_out(self, job: Measurement) -> SubjectPut:
        """Put the fault to every clause that applies to it."""
        return replace(self._blank(job), convictions=tuple(self._convictions(job)))

    def _convictions(self, job: Measurement) -> Iterator[Conviction]:
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)
        from attnspec.trials.own_subjects import try_first_cases  # noqa: PLC0415  (weight: NumPy)
        from attnspec.trials.sizes import Dealer  # noqa: PLC0415  (weight: NumPy)

        subject = own_subject(job.target)
        dealer = Dealer(subject, lambda: self._law, EFFORT, SEED)
        for name, check in self._checks.items():
            if check.why_not_put(subject):
                continue
            tally = try_first_cases(check, job.target, DType(job.dtype), dealer)
            if tally.failure is not None:
                yield Conviction(name, convicted=True, cases=tally.tried_count)

    @staticmethod
    def _blank(job: Measurement) -> SubjectPut:
        from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy)

        stage = fault_named(job.target.removeprefix(FAULT)).stage
        return SubjectPut(job.target, DType(job.dtype), job.seed, is_fault=True, stage=stage)

    def record_loss(self, job: Measurement, loss: JobFailure) -> SubjectPut:
        """A fault that was put to nothing, and why."""
        return replace(self._blank(job), lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """How many pairs convict."""
        puts = [each for each in done if isinstance(each, SubjectPut)]
        counts = {"convictions": sum(len(put.convictions) for put in puts), "lost": sum(bool(put.lost) for put in puts)}
        return Conclusion(CANNOT_RUN if interrupted or counts["lost"] else CONFORMS, counts)


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """A clause and a fault, with the dtypes at which the one convicted the other, and those at which it does now."""

    clause: str
    fault: str
    before: tuple[DType, ...]
    now: tuple[DType, ...]


def join_matrix(before: Refutations, puts: Iterable[SubjectPut], law: Spec, plan: Plan) -> Refutations:
    """The matrix with all pairs of the plan's clauses and faults as they were found now, and without what is gone."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)

    asked = {target.removeprefix(FAULT) for target in plan.targets}
    found = _by_clause(puts)
    rows = {}
    for clause in law.clauses:
        old = before.convictions.get(clause.id, {})
        kept = {name for name in old if name in CATALOGUE and not (name in asked and clause.id in plan.clauses)}
        rows[clause.id] = dict(sorted({name: old[name] for name in kept}.items() | found.get(clause.id, {}).items()))
    return Refutations(rows)


def _by_clause(puts: Iterable[SubjectPut]) -> dict[str, dict[str, tuple[DType, ...]]]:
    """By clause and fault, the dtypes at which the clause convicts."""
    order = list(DType)
    found: dict[str, dict[str, tuple[DType, ...]]] = {}
    for put in sorted(puts, key=lambda put: order.index(put.dtype)):
        for conviction in put.convictions:
            row, name = found.setdefault(conviction.rule, {}), put.subject.removeprefix(FAULT)
            row[name] = (*row.get(name, ()), put.dtype)
    return found


def changes(before: Refutations, now: Refutations) -> Iterator[MatrixChange]:
    """The pairs that are not as they were."""
    for clause in dict.fromkeys((*before.convictions, *now.convictions)):
        was, is_now = before.convictions.get(clause, {}), now.convictions.get(clause, {})
        for fault in sorted(was.keys() | is_now.keys()):
            if was.get(fault, ()) != is_now.get(fault, ()):
                yield MatrixChange(clause, fault, was.get(fault, ()), is_now.get(fault, ()))
