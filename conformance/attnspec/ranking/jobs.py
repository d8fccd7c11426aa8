"""Makes a ranking of kernels: finds the kernels that the user names, and makes a job of each.

Kernels are named by files, folders, patterns, and files that list targets. A ranking continues in
an existing record only where the same plan judges. A worker judges a kernel as a whole: it starts
the kernel's process, tries every clause, and then frees all that it loaded.
"""

from __future__ import annotations

import glob
import hashlib
import math
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import attnspec
from attnspec.core.errors import (
    CANNOT_RUN,
    CONFORMS,
    VIOLATED,
    AttnspecError,
    EndedError,
    FileLocation,
    TargetError,
    UsageError,
)
from attnspec.core.nouns import FAILURES, DType, Level, Verdict, does_gate_run
from attnspec.core.plan import Conclusion, Item, JobFailure, Plan
from attnspec.engine.engine import Engine
from attnspec.record.events import RANK_PART, Done, FirstFailure, KernelRanked, KernelStanding, RunStarted
from attnspec.record.outcome import Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import Group, plan_digest
from attnspec.report.bugs import likely_group
from attnspec.report.likely_cause import CONSEQUENT_THEMES
from attnspec.runner.jobs import Breadcrumb, Sharing, is_idle
from attnspec.runner.judge import clause_of, not_run, pronounce_verdict
from attnspec.spec.clause import Spec, first_of
from attnspec.subjects.outline import no_such_subject, only_function

DEFAULT_FUNCTION = "attend"
"""The name of a kernel's function, unless its file has only one that takes what attention takes."""

DIGEST_DIGITS = 16
"""How many digits of the digest of a file are kept."""

_LIST_SUFFIX = ".txt"


def find_kernels(names: Iterable[str], function: str = "") -> Iterator[str]:
    """Lists the targets in the order of the names; those of a folder or pattern are sorted.

    A file of targets ends in .txt, has one target per line, and is read from the working
    directory; `#` begins a comment. function: the function to judge in files without a function
    name; if it is empty, it is the file's only function, or else `attend`. Raises TargetError for
    a name that is empty or leads nowhere.
    """
    for target in names:
        path, (pattern, _, named_function) = Path(target), target.rpartition(":")
        if path.is_dir():
            yield from _targets_in(_files_in_folder(path), target, function)
        elif path.suffix == _LIST_SUFFIX:
            yield from find_kernels(_read_target_lines(path), function)
        elif target.endswith(".py"):
            yield from _targets_in(_match_files(target), target, function)
        elif pattern.endswith(".py") and glob.has_magic(pattern):
            yield from _targets_in(_match_files(pattern), target, named_function)
        else:
            yield target


def _read_target_lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TargetError(
            f"the targets in {path} cannot be read: {getattr(wrong, 'strerror', '') or wrong}.") from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _files_in_folder(folder: Path) -> list[Path]:
    """Lists the Python files in the folder, without names that begin with `_` or a dot."""
    return sorted(path for path in folder.rglob("*.py")
                  if not re.search(r"(^|/)[_.]", path.relative_to(folder).as_posix()))


def _match_files(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        if not Path(pattern).is_file():
            raise no_such_subject(pattern, ())
        return [Path(pattern)]
    return sorted(map(Path, glob.glob(pattern, recursive=True)))


def _targets_in(files: Sequence[Path], name: str, function: str) -> Iterator[str]:
    if not files:
        raise TargetError(f"{name!r} names no kernel: there is no Python file.")
    for file in files:
        yield f"{file}:{function or only_function(file) or DEFAULT_FUNCTION}"


def file_digest(target: str) -> str:
    """Computes a digest by which a change of a kernel's file is seen; "" if it cannot be read."""
    try:
        content = Path(target.rpartition(":")[0]).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]


RANKING_SOURCE = "attnspec.ranking.jobs:RankJobs"
STOP_AFTER, DIGEST, SHARD = "stop after", "digest", "shard"
"""Keys of `Plan.more`: after how many failing clauses a kernel is dropped, the digest of the plan,
the shard.
"""


@dataclass(frozen=True, slots=True)
class KernelJob:
    """One kernel, at all dtypes."""

    target: str

    @property
    def part(self) -> str:
        """The part of the key in the record."""
        return RANK_PART

    @property
    def dtype(self) -> str:
        """Empty, since the job covers all dtypes."""
        return ""

    @property
    def id(self) -> str:
        """The job's name."""
        return self.target


def as_ranking(plan: Plan, stop_after: int = 0, sharing: Sharing | None = None) -> Plan:
    """Makes the plan of a ranking, with its record's digest and only its shard's kernels.

    The digest does not depend on which kernels there are, so that a record can take more of them.
    The digest of a shard depends on all shards.
    """
    plan = replace(plan, diagnosed=1, more={STOP_AFTER: (str(stop_after),)})
    shares: tuple[tuple[Group, ...], ...] = ()
    targets, more = plan.targets, dict(plan.more)
    if sharing:
        jobs = [KernelJob(target) for target in plan.targets]
        shares = sharing.divide_groups(jobs)
        targets = tuple(job.target for job in sharing.select_jobs(jobs))
        more[SHARD] = (str(sharing.shard),)
    same = replace(plan, targets=(), more={**plan.more, "attnspec": (attnspec.__version__,)})
    more[DIGEST] = (plan_digest(same, Engine(plan).spec.digest, shares),)
    return replace(plan, targets=targets, more=more)


def resume_ranking(path: Path, plan: Plan) -> RunRecord | None:
    """Reads the ranking that the record holds; None where there is no record yet. Raises
    UsageError where the record is of another kind of run, or of another plan.
    """
    if not path.exists() or not path.stat().st_size:
        return None
    record, where = read_record(path), FileLocation(str(path))
    if record.finished_count > len(record.ranks):
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
        """Returns the kernels of the plan. Raises UsageError for unknown clauses and profiles."""
        _ = self._engine.clauses
        return tuple(map(KernelJob, self.plan.targets))

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds the digest of the plan."""
        [digest] = self.plan.more[DIGEST]
        return replace(blank, plan_digest=digest, shard=self.plan.more.get(SHARD, ("",))[0],
                       planned={}, sample=self.plan.sample,
                       dtypes=tuple(dtype.value for dtype in self.plan.dtypes))

    def card(self, target: str) -> SubjectCard | None:  # noqa: ARG002  (the protocol's)
        """Returns None: the line of a kernel says everything."""
        return None

    @cached_property
    def _worker(self) -> KernelWorker:
        return KernelWorker(self.plan, int(self.plan.more[STOP_AFTER][0]), self._breadcrumb)

    def carry_out(self, job: KernelJob) -> KernelRanked:
        """Judges a kernel. The digest of its file is computed first, since the file may change
        meanwhile.
        """
        digest = file_digest(job.target)
        return replace(self._worker.rank(job.target), digest=digest)

    def record_loss(self, job: KernelJob, loss: JobFailure) -> KernelRanked:
        """Makes the line of a kernel of which nothing is known, with the reason."""
        return KernelRanked(job.target, KernelStanding.NOT_JUDGED, lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """Counts the standings, and derives the exit code from them."""
        ranks = [each for each in done if isinstance(each, KernelRanked)]
        return Conclusion(ranking_exit_code(ranks, interrupted=interrupted),
                          count_standings(ranks))


def count_standings(ranks: Sequence[KernelRanked]) -> Mapping[str, int]:
    """Counts each standing of kernels, in the order of the enumeration."""
    counts = Counter(rank.verdict for rank in ranks)
    return {each.value: counts[each] for each in KernelStanding if counts[each]}


def ranking_exit_code(ranks: Sequence[KernelRanked], *, interrupted: bool = False) -> int:
    """Returns 0 if all conform, 1 if one does not, 2 if interrupted or one was not judged."""
    standings = {rank.verdict for rank in ranks}
    if interrupted or not ranks:
        return CANNOT_RUN
    if KernelStanding.VIOLATED in standings:
        return VIOLATED
    if KernelStanding.NOT_JUDGED in standings:
        return CANNOT_RUN
    return CONFORMS


MAX_HANGS = 2
"""So many items may end at the deadline; then the kernel is dropped, since each costs as long."""


def clearest_first(items: Sequence[Item]) -> Sequence[Item]:
    """Sorts items so that the first failure says most about the cause.

    float32, or else the first dtype, comes first, because every clause is asked there. Themes that
    fail as a consequence of other mistakes come last.
    """
    if not items:
        return items
    dtypes = {item.dtype for item in items}
    main = first_of([dtype for dtype in DType if dtype.value in dtypes])
    return sorted(items, key=lambda item: (item.dtype != main.value,
                                           item.clause.partition(".")[0] in CONSEQUENT_THEMES))


class KernelWorker:
    """Judges kernels one by one, and keeps what the definition answers for the next ones."""

    def __init__(self, plan: Plan, stop_after: int, breadcrumb: Callable[[str], None]) -> None:
        from attnspec.trials.evaluator import Archives  # noqa: PLC0415  (weight: the controller ranks nothing)

        self._plan, self._stop_after = plan, stop_after
        self._engine = Engine(plan, breadcrumb=breadcrumb, archives=Archives())

    def rank(self, target: str) -> KernelRanked:
        """Makes the line of one kernel. An exception is a defect of attnspec."""
        from attnspec.hosting.client import close_all  # noqa: PLC0415  (weight: as above)
        from attnspec.trials.evaluator import release_free_pages  # noqa: PLC0415  (weight: as above)

        began = time.perf_counter()
        try:
            ranked = self._judge_kernel(target)
        except AttnspecError as cause:
            death = str(cause) if isinstance(cause, EndedError) else ""
            ranked = KernelRanked(target, KernelStanding.NOT_JUDGED, reason=str(cause), death=death)
        finally:
            self._engine.forget(target)
            close_all()
            release_free_pages()
        return replace(ranked, seconds=time.perf_counter() - began)

    def _judge_kernel(self, target: str) -> KernelRanked:
        self._engine.fetch(target)
        score, items = KernelScore(), clearest_first(self._engine.items_of(target))
        for number, item in enumerate(items):
            score.outcomes.append(self._judge_item(item))
            if why := self._why_enough(score):
                score.why_stopped = why
                score.untried_clauses = self._applying_clauses(items[number + 1:])
                break
        ranked = score.conclude_kernel(target, strict=self._plan.strict)
        refused = dict.fromkeys((*self._engine.find_refused(target), *ranked.refused))
        return replace(ranked, refused=tuple(refused))

    def _judge_item(self, item: Item) -> Outcome:
        """Judges one item. A defect of attnspec costs the kernel this item only."""
        try:
            return pronounce_verdict(self._engine, item, plan=self._plan)
        except Exception as defect:
            last = traceback.extract_tb(defect.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            level = clause_of(self._engine.spec, item.clause).level
            return not_run(item, level,
                           f"attnspec itself failed at {item.clause}, which is its defect: "
                           f"{type(defect).__name__}: {defect} (in {place})")

    def _why_enough(self, score: KernelScore) -> str:
        """Says why a kernel is dropped; empty as long as it is not."""
        number = len(score.failing_clauses)
        if 0 < self._stop_after <= number:
            return f"dropped after {number} failing {'clause' if number == 1 else 'clauses'}"
        if score.hangs >= MAX_HANGS:
            return f"dropped after {MAX_HANGS} calls that did not return"
        if score.is_given_up:
            from attnspec.subjects.watching import MOST_HANGS  # noqa: PLC0415  (weight: as above)

            return f"dropped after {MOST_HANGS} calls that did not return"
        return ""

    def _applying_clauses(self, items: Sequence[Item]) -> frozenset[str]:
        """Returns the `must` clauses among these items that apply to the kernel."""
        spec = self._engine.spec
        return frozenset(item.clause for item in items
                         if clause_of(spec, item.clause).level is Level.MUST
                         and self._engine.applies(item))


# What a kernel's outcomes come to


GRADE_QUANTITY = "precision grade"
"""The quantity of the reading that holds a kernel's grade."""

_HOLDING_VERDICTS = frozenset({Verdict.HELD, Verdict.EXPECTED})
_DEATH_VERDICTS = frozenset({Verdict.CRASHED, Verdict.TIMED_OUT})


@dataclass(slots=True)
class KernelScore:
    """Counts how a kernel's `must` clauses come out. untried_clauses: those that were left out
    once the kernel was dropped.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    untried_clauses: frozenset[str] = frozenset()
    why_stopped: str = ""

    @property
    def failing_clauses(self) -> tuple[str, ...]:
        """The clauses that failed at some dtype, in the order of their failures."""
        return tuple(dict.fromkeys(each.clause for each in self._musts
                                   if each.verdict in FAILURES))

    @property
    def hangs(self) -> int:
        """The number of items that ended at the deadline."""
        return sum(each.verdict is Verdict.TIMED_OUT for each in self.outcomes)

    @property
    def is_given_up(self) -> bool:
        """Whether no further call is made, because several in a row did not return."""
        from attnspec.subjects.watching import GIVEN_UP_SENTENCE  # noqa: PLC0415  (weight: as above)

        return any(each.reason == GIVEN_UP_SENTENCE for each in self.outcomes)

    @property
    def _musts(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.level is Level.MUST]

    def conclude_kernel(self, subject: str, *, strict: bool) -> KernelRanked:
        """Makes the line of the kernel, without its seconds."""
        failing = self.failing_clauses
        executed = {each.clause for each in self._musts if each.verdict in _HOLDING_VERDICTS}
        held = executed.difference(failing, self.untried_clauses)
        untried = self.untried_clauses.difference(failing)
        every = len(held) + len(failing) + len(untried)
        margin, closest = _closest_margin(self.outcomes)
        refused = dict.fromkeys(name for each in self.outcomes for name in each.refused)
        return KernelRanked(subject, _kernel_standing(self.outcomes, strict=strict),
                            len(held) / every if every else 0.0, len(held), len(failing),
                            len(untried), failing, _first_failure(self.outcomes, strict=strict),
                            margin, closest, _precision_grades(self.outcomes),
                            tuple(refused), stopped=self.why_stopped,
                            death=_first_death(self.outcomes),
                            reason=_reason_not_run(self.outcomes))


def _kernel_standing(outcomes: Sequence[Outcome], *, strict: bool) -> KernelStanding:
    if any(does_gate_run(each.verdict, each.level, strict=strict) for each in outcomes):
        return KernelStanding.VIOLATED
    is_short = is_idle(outcomes) or any(each.verdict is Verdict.NOT_RUN for each in outcomes)
    if is_short:
        return KernelStanding.NOT_JUDGED
    return KernelStanding.CONFORMS


def _reason_not_run(outcomes: Sequence[Outcome]) -> str:
    """Says why an item was not run, or why no clause applied."""
    for each in outcomes:
        if each.verdict is Verdict.NOT_RUN:
            return each.reason
    if outcomes and is_idle(outcomes):
        return outcomes[0].reason
    return ""


def _first_failure(outcomes: Iterable[Outcome], *, strict: bool) -> FirstFailure | None:
    failure = next((each for each in outcomes if each.verdict in FAILURES
                    and does_gate_run(each.verdict, each.level, strict=strict)), None)
    if failure is None:
        return None
    reason, begins, says, fault = failure.reason, "", "", ""
    if failure.evidence:
        reason, begins = reason or failure.evidence.sentence, failure.evidence.begins
    if (group := likely_group((failure,))) and group.cause:
        says, fault = group.cause.says, group.cause.fault
    return FirstFailure(failure.clause, failure.dtype.value, reason, says, fault, begins,
                        failure.repeat)


def _closest_margin(outcomes: Iterable[Outcome]) -> tuple[float, str]:
    """Finds the largest margin of `must` clauses, also of failing ones, and its clause. The margin
    of a value that is not a number counts as infinite.
    """
    margins: list[tuple[float, str]] = []
    for each in outcomes:
        if each.level is Level.MUST:
            seen = (each.worst, each.evidence.measured if each.evidence else None)
            margins += [(_margin_or_infinity(measured), f"{each.clause} {each.dtype.value}")
                        for measured in seen if measured]
    return max(margins, default=(0.0, ""), key=lambda pair: pair[0])


def _margin_or_infinity(measured: Measured) -> float:
    if math.isnan(measured.margin):
        return math.inf
    return measured.margin


def _precision_grades(outcomes: Iterable[Outcome]) -> Mapping[str, str]:
    return {each.dtype.value: str(reading.value) for each in outcomes for reading in each.readings
            if reading.quantity == GRADE_QUANTITY}


def _first_death(outcomes: Iterable[Outcome]) -> str:
    """Says how the kernel's process first ended, and under which clause."""
    return next((f"{each.reason} ({each.clause} {each.dtype.value})" for each in outcomes
                 if each.verdict in _DEATH_VERDICTS), "")
