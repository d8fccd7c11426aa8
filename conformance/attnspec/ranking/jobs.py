"""A ranking: which kernels are meant (files, folders of them, patterns, files that name targets), a job each, and
whether it may go on in a record: only where the same plan judges.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import attnspec
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, TargetError, UsageError
from attnspec.core.plan import Conclusion, JobFailure, Plan
from attnspec.engine.engine import Engine
from attnspec.record.events import RANK, Done, KernelRanked, KernelStanding, RunStarted
from attnspec.record.outcome import SubjectCard
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import plan_digest
from attnspec.runner.jobs import Breadcrumb, Sharing
from attnspec.spec.clause import Spec
from attnspec.subjects.outline import no_such_subject, only_function

if TYPE_CHECKING:
    from attnspec.ranking.kernels import KernelWorker


FUNCTION = "attend"
"""How a kernel's function is called, unless its file has one function alone that takes what attention takes."""

DIGITS = 16
"""Of the digest of a file."""

_LIST = ".txt"


def find_kernels(named: Iterable[str], function: str = "") -> Iterator[str]:
    """The targets that are meant, in the order in which they are named; those of a folder or a pattern by name.

    A file of targets ends in .txt, has one on each line, and is read from the working directory; `#` begins a comment.
    function: what is judged of files for which no function is named; empty: the only one that there is, or `attend`.
    Raises TargetError for what is empty or nowhere.
    """
    for target in named:
        path, pattern = Path(target), target.rpartition(":")
        if path.is_dir():
            yield from _of_files(_in_folder(path), target, function)
        elif path.suffix == _LIST:
            yield from find_kernels(_lines(path), function)
        elif target.endswith(".py"):
            yield from _of_files(_match_files(target), target, function)
        elif pattern[0].endswith(".py") and glob.has_magic(pattern[0]):
            yield from _of_files(_match_files(pattern[0]), target, pattern[2])
        else:
            yield target


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TargetError(f"the targets in {path} cannot be read: {getattr(wrong, 'strerror', '') or wrong}.") from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _in_folder(folder: Path) -> list[Path]:
    """Every Python file below it whose name, and whose folders' names, do not begin with `_` or a dot."""
    return sorted(path for path in folder.rglob("*.py")
                  if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts))


def _match_files(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        if not Path(pattern).is_file():
            raise no_such_subject(pattern, ())
        return [Path(pattern)]
    return sorted(map(Path, glob.glob(pattern, recursive=True)))


def _of_files(files: Iterable[Path], named: str, function: str) -> Iterator[str]:
    found = [f"{file}:{function or only_function(file) or FUNCTION}" for file in files]
    if not found:
        raise TargetError(f"{named!r} names no kernel: there is no Python file.")
    yield from found


def file_digest(target: str) -> str:
    """What tells whether a kernel has changed: of its file; "" of a target that names none that can be read."""
    try:
        return hashlib.sha256(Path(target.rpartition(":")[0]).read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return ""


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
        """Judges a kernel. The digest of its file is taken first: it may change meanwhile."""
        digest = file_digest(job.target)
        return replace(self._worker.rank(job.target), digest=digest)

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
