"""Which jobs of a run a shard carries out, and by what its record is known as a part of that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from attnspec.core.errors import UsageError
from attnspec.core.plan import Job, Plan
from attnspec.core.shard import Shard, deal_shards
from attnspec.record.events import RunStarted
from attnspec.record.measurements import BlockJudged, SubjectProbed, SubjectPut
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord, read_records
from attnspec.record.sharded import Group, plan_digest

J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a run is divided. timings: an earlier record, whose seconds say which groups are dear; None: all jobs cost
    the same.
    """

    shard: Shard
    timings: Path | None = None

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """The jobs of this shard, in the order of the run. Raises RecordError where the timings cannot be read, and
        UsageError where there are more shards than subjects and dtypes.
        """
        mine = frozenset(self.shares(jobs)[self.shard.index - 1])
        return tuple(job for job in jobs if _group(job) in mine)

    def marked(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:
        """The header of this shard's record. jobs: all of the run."""
        return replace(header, shard=str(self.shard),
                       plan_digest=plan_digest(plan, header.spec_digest, self.shares(jobs)))

    def shares(self, jobs: Sequence[Job]) -> tuple[tuple[Group, ...], ...]:
        """What each shard gets, the first shard's first. Raises as `of` does."""
        costs = _costs(jobs, _seconds(self.timings))
        if len(costs) < self.shard.count:
            raise UsageError(f"a run of {len(costs)} pairs of subject and dtype cannot be divided into "
                             f"{self.shard.count} shards: every clause of a pair is judged in one shard.")
        return deal_shards(costs, self.shard.count)


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """A part of a run by what it has, whatever the other parts are."""

    groups: frozenset[Group]

    def select_jobs(self, jobs: Sequence[J]) -> tuple[J, ...]:
        """The jobs of these groups, in the order of the run."""
        return tuple(job for job in jobs if _group(job) in self.groups)

    def marked(self, header: RunStarted, plan: Plan, jobs: Sequence[Job]) -> RunStarted:  # noqa: ARG002
        """The header as it is."""
        return header


Share = Sharing | NamedGroups


def groups_of(jobs: Sequence[J]) -> Mapping[Group, Sequence[J]]:
    """What stays together, in the order of the run."""
    found: dict[Group, list[J]] = {}
    for job in jobs:
        found.setdefault(_group(job), []).append(job)
    return found


def _group(job: Job) -> Group:
    return job.target, job.dtype


def _costs(jobs: Sequence[Job], seconds: Mapping[Group, float]) -> Mapping[Group, float]:
    """Of each group, its seconds in the earlier record; of one that it has not, as many a job as of all others."""
    counts = {group: len(of_one) for group, of_one in groups_of(jobs).items()}
    known = sum(counts[group] for group in counts if group in seconds)
    each = sum(seconds[group] for group in counts if group in seconds) / known if known else 1.0
    return {group: seconds.get(group, each * count) for group, count in counts.items()}


def _seconds(timings: Path | None) -> Mapping[Group, float]:
    spent: dict[Group, float] = {}
    for record in read_records(timings) if timings else ():
        for group, seconds in _spent(record):
            spent[group] = spent.get(group, 0.0) + seconds
    return spent


def _spent(record: RunRecord) -> Iterator[tuple[Group, float]]:
    every: list[Outcome | SubjectPut | BlockJudged | SubjectProbed] = [
        *record.outcomes, *record.puts, *record.blocks, *record.probes]
    for each in every:
        yield (each.subject, each.dtype.value), each.seconds
    yield from (((each.subject, ""), each.seconds) for each in record.ranks)
