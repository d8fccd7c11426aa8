"""What a run carries out one by one, handed by name through pytest; which jobs of it a shard has;
and what it comes to: counts and an exit code.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, UsageError
from attnspec.core.nouns import FAILURES, Verdict
from attnspec.core.plan import Conclusion, Job, JobFailure, Plan, Shard, deal_shards
from attnspec.record.codec import decode, encode
from attnspec.record.events import BlockJudged, Done, RunStarted, SubjectProbed, SubjectPut
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.record.read import RunRecord, read_records
from attnspec.record.write import Group, plan_digest
from attnspec.spec.clause import Spec
from attnspec.subjects.installed import look_in

if TYPE_CHECKING:
    import pytest


Breadcrumb = Callable[[str], None]  # takes the recipe on trial, before the subject sees it
E = TypeVar("E", bound=Job)


class JobSource(Protocol[E]):
    """Jobs and how to carry them out. The controller asks for all but `carry_out` and `card`, a
    worker for these.

    Made as NAME(plan, breadcrumb=...) in the controller and in every worker. Making it, `spec`,
    `items`, `surroundings` and `header` are light: what loads NumPy or a framework waits for the
    first job.
    """

    @property
    def spec(self) -> Spec:
        """The law that is applied."""

    def items(self) -> tuple[E, ...]:
        """The jobs, in an order that follows from the plan. Raises AttnspecError."""

    def header(self, blank: RunStarted) -> RunStarted:
        """The header with what the record embeds of clauses, rules and faults."""

    def card(self, target: str) -> SubjectCard | None:
        """What a report says of a subject; None where the header does. Raises AttnspecError."""

    def carry_out(self, job: E) -> Done:
        """Carries out a job, in a worker. What escapes is a defect of attnspec."""

    def record_loss(self, job: E, loss: JobFailure) -> Done:
        """What stands in the record for a job that came to nothing."""

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """What the run comes to."""


@runtime_checkable
class TellsFailures(Protocol):
    """A source whose jobs may have failed long before they end."""

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Have each failure told as it is found."""


@runtime_checkable
class KnowsTried(Protocol):
    """A source of which most jobs end without a call: a clause does not apply."""

    def is_tried(self, job: Job) -> bool:
        """Whether a job of a subject that is loaded will call it."""


@runtime_checkable
class CountsCompiling(Protocol):
    """A source whose subjects may compile for minutes."""

    def seconds_compiling(self, target: str) -> float:
        """What a compiler has taken so far for a subject, by the clock."""


LAW_FILE = "law"
"""The file of a run's folder with the law, as the command has read it."""

UNTOLD = "attnspec-untold"
"""The property of a report, and the part of a worker's output, with ends that had no report."""


def open_jobs(name: str, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> JobSource[Any]:
    """The source of jobs "module:Class" for this plan. Raises AttnspecError."""
    look_in(plan.surroundings({}))
    module, _, kind = name.partition(":")
    make = getattr(importlib.import_module(module), kind)
    source: JobSource[Any] = make(plan, breadcrumb=breadcrumb)
    return source


def plan_text(plan: Plan) -> str:
    """The plan as one argument."""
    return json.dumps(encode(plan))


def plan_of(config: pytest.Config) -> Plan:
    """The plan that this pytest was started with."""
    text = config.getoption("attnspec_plan")
    if not text:
        raise UsageError(
            "only the attnspec command runs runner/worker.py; in a test file of yours, use attnspec.gate.")
    return decode(Plan, json.loads(text))


def source_of(config: pytest.Config, breadcrumb: Breadcrumb,
              tell: Callable[[Done], None]) -> JobSource[Any]:
    """The source of this pytest's jobs. tell: is told failures as they are found."""
    source = open_jobs(str(config.getoption("attnspec_jobs")), plan_of(config),
                       breadcrumb=breadcrumb)
    if isinstance(source, TellsFailures):
        source.tell_failures(tell)
    return source


# The verdicts of items in which the subject was called and judged.
EXECUTED_VERDICTS = FAILURES | {Verdict.HELD, Verdict.EXPECTED, Verdict.UNEXPECTED}


def count_verdicts(outcomes: Iterable[Outcome]) -> Mapping[str, int]:
    """How often each verdict was given, in the order of the enumeration."""
    found = Counter(outcome.verdict for outcome in outcomes)
    return {verdict.value: found[verdict] for verdict in Verdict if found[verdict]}


def exit_code(outcomes: Sequence[Outcome], *, strict: bool, interrupted: bool) -> int:
    """0 conforms, 1 a gating clause is violated, 2 cannot say: interrupted, or idle."""
    if interrupted:
        return CANNOT_RUN
    if any(outcome.does_gate(strict=strict) for outcome in outcomes):
        return VIOLATED
    if is_idle(outcomes) or any(outcome.verdict is Verdict.NOT_RUN for outcome in outcomes):
        return CANNOT_RUN
    return CONFORMS


def is_idle(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing at all was executed. An empty run says nothing about anybody's attention."""
    return not any(outcome.verdict in EXECUTED_VERDICTS for outcome in outcomes)


J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a run is divided. timings: an earlier record, whose seconds say which groups are dear;
    None: all jobs cost the same.
    """

    shard: Shard
    timings: Path | None = None

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """The jobs of this shard, in the order of the run. Raises RecordError where the timings
        cannot be read, and UsageError where there are more shards than subjects and dtypes.
        """
        mine = frozenset(self.divide_groups(jobs)[self.shard.index - 1])
        return tuple(job for job in jobs if _group_of_job(job) in mine)

    def mark_header(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:
        """The header of this shard's record. jobs: all of the run."""
        return replace(header, shard=str(self.shard),
                       plan_digest=plan_digest(plan, header.spec_digest, self.divide_groups(jobs)))

    def divide_groups(self, jobs: Sequence[Job]) -> tuple[tuple[Group, ...], ...]:
        """What each shard gets, the first shard's first. Raises as `of` does."""
        costs = _cost_of_groups(jobs, _read_timings(self.timings))
        if len(costs) < self.shard.count:
            raise UsageError(
                f"a run of {len(costs)} pairs of subject and dtype cannot be divided into "
                f"{self.shard.count} shards: every clause of a pair is judged in one shard.")
        return deal_shards(costs, self.shard.count)


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """A part of a run by what it has, whatever the other parts are."""

    groups: frozenset[Group]

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """The jobs of these groups, in the order of the run."""
        return tuple(job for job in jobs if _group_of_job(job) in self.groups)

    def mark_header(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:  # noqa: ARG002
        """The header as it is."""
        return header


Share = Sharing | NamedGroups


def groups_of(jobs: Sequence[J]) -> Mapping[Group, Sequence[J]]:
    """What stays together, in the order of the run."""
    found: dict[Group, list[J]] = {}
    for job in jobs:
        found.setdefault(_group_of_job(job), []).append(job)
    return found


def _group_of_job(job: Job) -> Group:
    return job.target, job.dtype


def _cost_of_groups(jobs: Sequence[Job], seconds: Mapping[Group, float]) -> Mapping[Group, float]:
    """Each group's seconds in the earlier record; of a new one, a mean job's times its jobs."""
    counts = {group: len(of_one) for group, of_one in groups_of(jobs).items()}
    known = sum(counts[group] for group in counts if group in seconds)
    each = sum(seconds[group] for group in counts if group in seconds) / known if known else 1.0
    return {group: seconds.get(group, each * count) for group, count in counts.items()}


def _read_timings(timings: Path | None) -> Mapping[Group, float]:
    spent: dict[Group, float] = {}
    for record in read_records(timings) if timings else ():
        for group, seconds in _seconds_in_record(record):
            spent[group] = spent.get(group, 0.0) + seconds
    return spent


def _seconds_in_record(record: RunRecord) -> Iterator[tuple[Group, float]]:
    every: list[Outcome | SubjectPut | BlockJudged | SubjectProbed] = [
        *record.outcomes, *record.puts, *record.blocks, *record.probes]
    for each in every:
        yield (each.subject, each.dtype.value), each.seconds
    yield from (((each.subject, ""), each.seconds) for each in record.ranks)
