"""Defines the jobs that a run carries out, how they are divided into shards, and exit codes.

pytest passes the name of the class that makes the jobs.
"""

from __future__ import annotations

import importlib
import json
import math
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
    """Makes jobs and carries them out.

    It is made as NAME(plan, breadcrumb=...) in the controller and in every worker. Workers call
    `carry_out` and `card`; the controller calls the other methods. Making it, `spec`, `items`,
    `surroundings` and `header` are fast, so NumPy and frameworks are imported only for the first
    job.
    """

    @property
    def spec(self) -> Spec:
        """The spec by which the jobs are judged."""

    def items(self) -> tuple[E, ...]:
        """Returns the jobs, in an order that follows from the plan. Raises AttnspecError."""

    def header(self, blank: RunStarted) -> RunStarted:
        """Returns the header with the clauses, rules and faults that the record embeds."""

    def card(self, target: str) -> SubjectCard | None:
        """Returns the card of a subject; None where the header has it. Raises AttnspecError."""

    def carry_out(self, job: E) -> Done:
        """Carries out a job, in a worker. An exception is a defect of attnspec."""

    def record_loss(self, job: E, loss: JobFailure) -> Done:
        """Returns the event that the record has for a job without a result."""

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """Returns the counts and the exit code of the run."""


@runtime_checkable
class TellsFailures(Protocol):
    """A source whose jobs may have failed long before they end."""

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Makes the source call `tell` with each failure as soon as it is found."""


@runtime_checkable
class KnowsTried(Protocol):
    """A source of which most jobs end without a call: a clause does not apply."""

    def is_tried(self, job: Job) -> bool:
        """Whether a job of a subject that is loaded will call it."""


@runtime_checkable
class CountsCompiling(Protocol):
    """A source whose subjects may compile for minutes."""

    def seconds_compiling(self, target: str) -> float:
        """Returns the seconds that compilers have taken so far for a subject."""


LAW_FILE = "law"
"""The file of a run's folder with the law, as the command has read it."""

UNTOLD = "attnspec-untold"
"""The property of a report, and the part of a worker's output, with ends that had no report."""


def open_jobs(name: str, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> JobSource[Any]:
    """Makes the source of jobs "module:Class" for this plan. Raises AttnspecError."""
    look_in(plan.surroundings({}))
    module, _, kind = name.partition(":")
    make = getattr(importlib.import_module(module), kind)
    source: JobSource[Any] = make(plan, breadcrumb=breadcrumb)
    return source


def plan_text(plan: Plan) -> str:
    """Writes the plan as one argument of a command line."""
    return json.dumps(encode(plan))


def plan_of(config: pytest.Config) -> Plan:
    """Reads the plan that this pytest process was started with."""
    text = config.getoption("attnspec_plan")
    if not text:
        raise UsageError(
            "only the attnspec command runs runner/worker.py; in a test file of yours, use attnspec.gate.")
    return decode(Plan, json.loads(text))


def source_of(config: pytest.Config, breadcrumb: Breadcrumb,
              tell: Callable[[Done], None]) -> JobSource[Any]:
    """Makes the source of this pytest's jobs. tell: is called with failures as they are found."""
    source = open_jobs(str(config.getoption("attnspec_jobs")), plan_of(config),
                       breadcrumb=breadcrumb)
    if isinstance(source, TellsFailures):
        source.tell_failures(tell)
    return source


# The verdicts of items in which the subject was called and judged.
EXECUTED_VERDICTS = FAILURES | {Verdict.HELD, Verdict.EXPECTED, Verdict.UNEXPECTED}


def count_verdicts(outcomes: Iterable[Outcome]) -> Mapping[str, int]:
    """Counts each verdict, in the order of the enumeration."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def exit_code(outcomes: Sequence[Outcome], *, strict: bool, interrupted: bool) -> int:
    """The first that holds: 2 if the run was interrupted, 1 if an outcome gates, 2 if no item was
    executed or one was not run, else 0.

    strict: outcomes of `should` clauses gate as well.
    """
    if interrupted:
        return CANNOT_RUN
    if any(outcome.does_gate(strict=strict) for outcome in outcomes):
        return VIOLATED
    if is_idle(outcomes) or any(outcome.verdict is Verdict.NOT_RUN for outcome in outcomes):
        return CANNOT_RUN
    return CONFORMS


def is_idle(outcomes: Sequence[Outcome]) -> bool:
    """Whether no item was executed. An empty run says nothing about any attention."""
    return not any(outcome.verdict in EXECUTED_VERDICTS for outcome in outcomes)


J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Sharing:
    """Says how a run is divided. timings: an earlier record, whose seconds say which groups take
    long; None: all jobs cost the same.
    """

    shard: Shard
    timings: Path | None = None

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """Returns the jobs of this shard, in the order of the run.

        Raises RecordError where the timings cannot be read, and UsageError where there are more
        shards than subjects and dtypes.
        """
        mine = frozenset(self.divide_groups(jobs)[self.shard.index - 1])
        return tuple(job for job in jobs if _group_of_job(job) in mine)

    def mark_header(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:
        """Returns the header of this shard's record. jobs: all jobs of the run."""
        return replace(header, shard=str(self.shard),
                       plan_digest=plan_digest(plan, header.spec_digest, self.divide_groups(jobs)))

    def divide_groups(self, jobs: Sequence[Job]) -> tuple[tuple[Group, ...], ...]:
        """Returns the groups of each shard, in order. Raises as `select_jobs` does."""
        costs = _cost_of_groups(jobs, _read_timings(self.timings))
        if len(costs) < self.shard.count:
            raise UsageError(
                f"a run of {len(costs)} pairs of subject and dtype cannot be divided into "
                f"{self.shard.count} shards: every clause of a pair is judged in one shard.")
        return deal_shards(costs, self.shard.count)


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """Selects a part of a run by the groups in it, whatever the other parts are."""

    groups: frozenset[Group]

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """Returns the jobs of these groups, in the order of the run."""
        return tuple(job for job in jobs if _group_of_job(job) in self.groups)

    def mark_header(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:  # noqa: ARG002
        """Returns the header as it is."""
        return header


Share = Sharing | NamedGroups


def groups_of(jobs: Sequence[J]) -> Mapping[Group, Sequence[J]]:
    """Groups the jobs by subject and dtype, in the order of the run."""
    groups: dict[Group, list[J]] = {}
    for job in jobs:
        groups.setdefault(_group_of_job(job), []).append(job)
    return groups


def _group_of_job(job: Job) -> Group:
    return job.target, job.dtype


def _cost_of_groups(jobs: Sequence[Job], seconds: Mapping[Group, float]) -> Mapping[Group, float]:
    """Returns each group's seconds in the earlier record. A group that is not in the record is
    taken to cost the mean of a job times its number of jobs.
    """
    counts = {group: len(of_one) for group, of_one in groups_of(jobs).items()}
    timed = counts.keys() & seconds.keys()
    mean = 1.0
    if timed:
        mean = math.fsum(seconds[group] for group in timed) / sum(counts[group] for group in timed)
    return {group: seconds.get(group, mean * count) for group, count in counts.items()}


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
