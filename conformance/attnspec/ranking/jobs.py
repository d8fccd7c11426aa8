"""A ranking as jobs, a kernel each, and whether it may go on in a record: only where the same plan judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import attnspec
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, UsageError
from attnspec.core.plan import Conclusion, JobFailure, Plan
from attnspec.engine.engine import Engine
from attnspec.record.events import Done, RunStarted
from attnspec.record.outcome import SubjectCard
from attnspec.record.ranked import RANK, KernelRanked, KernelStanding
from attnspec.record.read import RunRecord, read_record
from attnspec.record.sharded import plan_digest
from attnspec.runner.jobs import Breadcrumb
from attnspec.runner.shards import Sharing
from attnspec.spec.clause import Spec

if TYPE_CHECKING:
    from attnspec.ranking.kernels import KernelWorker

RANKING = "attnspec.ranking.jobs:RankJobs"
STOP_AFTER, DIGEST, SHARD = "stop after", "digest", "shard"
"""Where a plan says when a kernel is dropped, by what its record is known, and which part of a run this is."""


@dataclass(frozen=True, slots=True)
class KernelJob:
    """One kernel, at all dtypes."""

    target: str

    @property
    def part(self) -> str:
        """As in the record."""
        return RANK

    @property
    def dtype(self) -> str:
        """None: it is judged at all."""
        return ""

    @property
    def id(self) -> str:
        """The job's name."""
        return self.target


def as_ranking(plan: Plan, stop_after: int = 0, sharing: Sharing | None = None) -> Plan:
    """The plan of a ranking, with the digest by which its record is known, and the kernels of its shard alone.

    The digest leaves out which kernels there are, so that more of them can be added to a record; a shard's tells all.
    """
    plan = replace(plan, diagnosed=1, more={STOP_AFTER: (str(stop_after),)})
    jobs = [KernelJob(target) for target in plan.targets]
    shares = sharing.shares(jobs) if sharing else ()
    same = replace(plan, targets=(), more={**plan.more, "attnspec": (attnspec.__version__,)})
    known = {DIGEST: (plan_digest(same, Engine(plan).spec.digest, shares),)}
    mine = sharing.select_jobs(jobs) if sharing else jobs
    part = {SHARD: (str(sharing.shard),)} if sharing else {}
    return replace(plan, targets=tuple(job.target for job in mine), more={**plan.more, **known, **part})


def resume_ranking(path: Path, plan: Plan) -> RunRecord | None:
    """The ranking that the record holds, if it may go on; None where there is no record yet.

    Raises UsageError where the record is of another kind of run, or of another plan.
    """
    if not path.exists() or not path.stat().st_size:
        return None
    record, where = read_record(path), FileLocation(str(path))
    if record.done > len(record.ranks):
        raise UsageError("this is the record of another kind of run, so a ranking cannot go on in it. Name another "
                         "file: --record PATH.", where=where)
    [digest], shard = plan.more[DIGEST], plan.more.get(SHARD, ("",))[0]
    if (record.header.plan_digest, record.header.shard) != (digest, shard):
        raise UsageError(
            f"this ranking has the plan {record.header.plan_digest or 'of nobody'}, and now the plan is {digest}: "
            "effort, seed, clauses, dtypes, contract, shard, spec or attnspec differ. Name another file (--record "
            "PATH), or go back to the command that it was begun with.", where=where)
    return record


class RankJobs:
    """A source of jobs: each kernel that the plan names is judged as a whole."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        self.plan, self._breadcrumb = plan, breadcrumb
        self._engine = Engine(plan)

    @property
    def spec(self) -> Spec:
        """The engine's spec."""
        return self._engine.spec

    def items(self) -> tuple[KernelJob, ...]:
        """The kernels in the order of the plan. Raises UsageError for clauses and profiles that are none."""
        _ = self._engine.clauses
        return tuple(map(KernelJob, self.plan.targets))

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds the digest of the plan."""
        [digest] = self.plan.more[DIGEST]
        return replace(blank, plan_digest=digest, shard=self.plan.more.get(SHARD, ("",))[0], planned={},
                       sample=self.plan.sample, dtypes=tuple(dtype.value for dtype in self.plan.dtypes))

    def card(self, target: str) -> SubjectCard | None:  # noqa: ARG002  (the protocol's)
        """None: the line of a kernel says it all."""
        return None

    @cached_property
    def _worker(self) -> KernelWorker:
        from attnspec.ranking.kernels import KernelWorker  # noqa: PLC0415  (weight: hypothesis)

        return KernelWorker(self.plan, int(self.plan.more[STOP_AFTER][0]), self._breadcrumb)

    def carry_out(self, job: KernelJob) -> KernelRanked:
        """Judges a kernel."""
        return self._worker.rank(job.target)

    def record_loss(self, job: KernelJob, loss: JobFailure) -> KernelRanked:
        """A kernel of which nothing is known, and why."""
        return KernelRanked(job.target, KernelStanding.NOT_JUDGED, lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """How many kernels stand how."""
        ranks = [each for each in done if isinstance(each, KernelRanked)]
        return Conclusion(code_of(ranks, interrupted=interrupted), count_standings(ranks))


def count_standings(ranks: Sequence[KernelRanked]) -> Mapping[str, int]:
    """How many kernels stand how, in the order of the enumeration."""
    found = {each: sum(rank.verdict is each for rank in ranks) for each in KernelStanding}
    return {each.value: count for each, count in found.items() if count}


def code_of(ranks: Sequence[KernelRanked], *, interrupted: bool = False) -> int:
    """0 all conform, 1 one does not, 2 it was interrupted, or one could not be judged and all others conform."""
    standings = {rank.verdict for rank in ranks}
    if interrupted or not ranks:
        return CANNOT_RUN
    if KernelStanding.VIOLATED in standings:
        return VIOLATED
    return CANNOT_RUN if KernelStanding.NOT_JUDGED in standings else CONFORMS
