"""A measurement of power as jobs: every fault and every sound implementation, put to every rule."""

from __future__ import annotations

import enum
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, AttnspecError
from attnspec.core.nouns import DType
from attnspec.core.plan import FAULT, Conclusion, JobFailure, Plan, is_fault
from attnspec.faults.size_family import SEEDED
from attnspec.faults.sizes.families import FAMILIES
from attnspec.faults.witnesses import clauses_for, declaration_of_target
from attnspec.record.events import SUITE, Done, RunStarted, SubjectPut, part_of_seed
from attnspec.record.outcome import SubjectCard
from attnspec.spec.clause import Refutations, Spec, read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects

from evaluation.power.against import PowerComparison, compare_power, read_before

if TYPE_CHECKING:
    from attnspec.diagnosis.candidate import Matrix
    from attnspec.subjects.subject import Subject
    from attnspec.trials.compile import Check

POWER = "evaluation.power.jobs:PowerJobs"
_SEEDS, _RULES, _AGAINST, _DIAGNOSIS, _SAMPLE = "seeds", "rules", "against", "diagnosis", "sample"

OURS: Mapping[str, str] = {
    "name": SUITE, "title": "attnspec", "source": "",
    "meaning": "The clauses of the spec, each on as many cases as `attnspec check` tries at this effort. The "
               "cases of the clause that detects the fault first are counted."}
"""What a record's header says of the suite, among the rules."""


class DiagnosisShare(enum.Enum):
    """Which counterexamples are put to the diagnosis. One takes some twenty times as long as to detect its fault."""

    ALL = "all"
    IN_TURN = "in-turn"  # each fault at one dtype
    NONE = "none"


def with_power(plan: Plan, *, seeds: Iterable[int], rules: Iterable[str], against: Path | None = None,
               diagnosis: DiagnosisShare = DiagnosisShare.ALL, sample: int = 0) -> Plan:
    """The plan, saying at which seeds, to which rules, what is diagnosed, and which record it is held against.

    sample: so many cases of a clause stand for all, as at a further dtype of a check; 0: all are tried.
    """
    more = {_SEEDS: tuple(map(str, seeds)), _RULES: tuple(rules), _AGAINST: (str(against),) if against else (),
            _DIAGNOSIS: (diagnosis.value,), _SAMPLE: (str(sample),)}
    return replace(plan, more={**plan.more, **more})


def _sample_of(plan: Plan) -> int:
    """How many cases stand for all; 0: all are tried."""
    return int(plan.more[_SAMPLE][0])


def comparison(puts: Iterable[SubjectPut], plan: Plan) -> PowerComparison | None:
    """The measurement held against the earlier one that the plan names; None where it names none."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)

    earlier = next(map(Path, plan.more[_AGAINST]), None)
    if not earlier:
        return None
    before = read_before(earlier, effort=plan.effort, sample=_sample_of(plan))
    return compare_power(puts, before.puts, catalogue=CATALOGUE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One subject at one dtype and one seed."""

    target: str
    dtype: str
    seed: int

    @property
    def part(self) -> str:
        """As in the record."""
        return part_of_seed(self.seed)

    @property
    def id(self) -> str:
        """The job's name."""
        return f"{self.target}-{self.dtype}-{self.seed}"


class PowerJobs:
    """Puts subjects to rules. Targets are `fault/NAME`, `sound/NAME`, or registered ones that are held to be sound."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb
        self.spec: Spec = load_spec(Path(plan.spec) if plan.spec else None)

    def items(self) -> tuple[Measurement, ...]:
        """By dtype and seed, so that a worker's neighbours share the inputs of the rules and what these should give."""
        return tuple(Measurement(_seeded_target(target, int(seed)), dtype.value, int(seed))
                     for dtype in self.plan.dtypes
                     for seed in self.plan.more[_SEEDS] for target in self.plan.targets if self._takes(target, dtype))

    def _is_diagnosed(self, job: Measurement) -> bool:
        how = DiagnosisShare(self.plan.more[_DIAGNOSIS][0])
        if how is not DiagnosisShare.IN_TURN:
            return how is DiagnosisShare.ALL
        turn = zlib.crc32(job.target.encode()) % len(self.plan.dtypes)
        return job.dtype == self.plan.dtypes[turn].value

    def _takes(self, target: str, dtype: DType) -> bool:
        if is_fault(target) and self._equivalent(target, dtype):
            return True  # it is put nowhere, and listed with the reason
        return dtype in declaration_of_target(target, self._registered).dtypes

    @cached_property
    def _registered(self) -> Mapping[str, Registered]:
        return registered_subjects(self.plan.implementations)

    def header(self, blank: RunStarted) -> RunStarted:
        """With what a page shows of each rule and each fault. Raises UsageError for a bad record to hold against."""
        from attnspec.faults.catalogue import fault_named, fault_row  # noqa: PLC0415  (weight: NumPy)

        from evaluation.baselines.every import EVERY  # noqa: PLC0415  (weight: see above)

        comparison((), self.plan)  # finds out now whether the earlier record can be read
        rules = [{"name": rule.name, "title": rule.title, "source": rule.source, "meaning": rule.meaning,
                  "sizes_from": ", ".join(map(str, rule.read))}
                 for rule in EVERY.values()]
        named = (_seeded_target(target, int(seed)) for target in self.plan.targets if is_fault(target)
                 for seed in self.plan.more[_SEEDS])
        faults = (fault_row(fault_named(target.removeprefix(FAULT))) for target in dict.fromkeys(named))
        where = "effort at further dtypes" if _sample_of(self.plan) else "effort"
        ours = {**OURS, "meaning": OURS["meaning"].replace("effort", where)}
        asked = tuple(rule for rule in (ours, *rules) if rule["name"] in self.plan.more[_RULES])
        return replace(blank, rules=asked, faults=tuple(faults), sample=_sample_of(self.plan))

    def card(self, target: str) -> SubjectCard | None:
        """What a report says of a subject. Of a fault the header tells."""
        return None if is_fault(target) else self._subject(target).card({}, {})

    def _subject(self, target: str) -> Subject:
        """A fresh one: what a fault with a memory was asked under one rule must not serve the next."""
        from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        return load_subject(target, self.plan)

    @cached_property
    def _checks(self) -> Mapping[str, Check]:
        from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: see above)
        from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)

        return compile_spec(self.spec, faults=CATALOGUE.keys())

    def carry_out(self, job: Measurement) -> SubjectPut:
        """Put the subject to every rule of the plan."""
        from evaluation.power.measure import Rules, measure_subject  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        began = time.perf_counter()
        blank = self._blank(job)
        if blank.equivalent:
            return blank
        try:
            rules = Rules(self._checks, self.plan.effort, self.plan.more[_RULES], self._first(job.target),
                          self._is_diagnosed(job), self._matrix, _sample_of(self.plan))
            found = measure_subject(blank, rules, lambda: self._subject(job.target))
        except AttnspecError as problem:
            found = replace(blank, lost=str(problem))
        return replace(found, seconds=round(time.perf_counter() - began, 3))

    def _first(self, target: str) -> tuple[str, ...]:
        """The clauses that witness the fault."""
        if not is_fault(target):
            return ()
        return clauses_for(self.spec, self._refutations, target.removeprefix(FAULT))

    @cached_property
    def _matrix(self) -> Matrix:
        from attnspec.diagnosis.candidate import Matrix  # noqa: PLC0415  (weight: hypothesis)

        return Matrix(lambda: self._checks, lambda: self._refutations)

    @cached_property
    def _refutations(self) -> Refutations:
        return read_refutations(self.spec)

    def _blank(self, job: Measurement) -> SubjectPut:
        from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy, which workers load anyhow)

        dtype = DType(job.dtype)
        if not is_fault(job.target):
            return SubjectPut(job.target, dtype, job.seed, is_fault=False, stage="")
        fault = fault_named(job.target.removeprefix(FAULT))
        return SubjectPut(job.target, dtype, job.seed, is_fault=True, stage=fault.stage,
                          equivalent=fault.equivalents.get(dtype, ""), shows_at=fault.shows_at)

    @staticmethod
    def _equivalent(target: str, dtype: DType) -> str:
        from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy)

        return fault_named(target.removeprefix(FAULT)).equivalents.get(dtype, "")

    def record_loss(self, job: Measurement, loss: JobFailure) -> SubjectPut:
        """A subject that was put to nothing, and why."""
        return replace(self._blank(job), lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """How many the suite convicted, missed and accused, and whether power fell."""
        puts = [each for each in done if isinstance(each, SubjectPut)]
        counts = Counter(_fate(put) for put in puts)
        known = {word: counts[word] for word in FATES if counts[word]}
        return Conclusion(self._code(puts, counts, interrupted=interrupted), known)

    def _code(self, puts: Sequence[SubjectPut], counts: Mapping[str, int], *, interrupted: bool) -> int:
        if interrupted or counts["lost"] or not puts:
            return CANNOT_RUN
        held = comparison(puts, self.plan)
        return VIOLATED if counts["accused"] or (held and held.fell) else CONFORMS


def _seeded_target(target: str, seed: int) -> str:
    """The target of a measurement: `fault/NAME@7` of a family of sizes that has no seed yet, any other as it is."""
    is_drawn = seed and is_fault(target) and target.removeprefix(FAULT) in FAMILIES
    return f"{target}{SEEDED}{seed}" if is_drawn else target


FATES = ("convicted", "missed", "not asked", "equivalent", "cleared", "accused", "lost")


def _fate(put: SubjectPut) -> str:
    """What the suite made of a subject, in one word."""
    said = next((each.convicted for each in put.convictions if each.rule == SUITE), None)
    if put.lost or put.equivalent:
        return "lost" if put.lost else "equivalent"
    if said is None:
        return "not asked"
    return ("convicted" if said else "missed") if put.is_fault else ("accused" if said else "cleared")
