"""The engine's items as jobs: what `check`, `audit` and `replay` carry out.

In an audit, every subject and variant is probed in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from attnspec.core.compiling import OWN_SIZES, RESHAPING
from attnspec.core.errors import CANNOT_RUN, VIOLATED
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Verdict
from attnspec.core.plan import Conclusion, Item, JobFailure, Plan
from attnspec.probing.jobs import ProbeJobs
from attnspec.probing.subjects import ProbeJob
from attnspec.record.events import Done, ItemFinished, RunStarted, SubjectProbed
from attnspec.record.outcome import Evidence, Outcome, SubjectCard
from attnspec.runner import jobs
from attnspec.runner.jobs import Breadcrumb
from attnspec.runner.judge import (
    Judge,
    clause_of,
    complete_outcome,
    distinct_items,
    load_engine,
    pronounce_verdict,
    text_of,
)
from attnspec.spec.clause import Clause, Spec
from attnspec.subjects.registry import registered_subjects

TRIALS = "attnspec.runner.trial_jobs:TrialJobs"
_ENGINE, _RECIPE = "engine", "recipe"


def with_engine(plan: Plan, *, engine: str, recipe: str) -> Plan:
    """The plan, saying by which engine and, to replay, on which one case."""
    return replace(plan, more={**plan.more, _ENGINE: (engine,), _RECIPE: (recipe,)})


def _dearness(clause: Clause) -> int:
    """0 for a clause whose cases have the sizes of others; where compilers have little time, what is dearer is last."""
    words = {word.name for steps in clause.runs.values() for word in steps}
    is_dear = words & RESHAPING or clause.given.args.get("kind") in OWN_SIZES
    return 2 if GRAD in clause.needs else 1 if is_dear else 0


class TrialJobs:
    """A source of jobs: each item of the engine is tried."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        [engine], [self.recipe] = plan.more[_ENGINE], plan.more[_RECIPE]
        self.plan = plan
        self.judge: Judge = load_engine(plan, engine=engine, breadcrumb=breadcrumb)

    @property
    def spec(self) -> Spec:
        """The engine's spec."""
        return self.judge.spec

    def items(self) -> tuple[Item, ...]:
        """The engine's items, each once; where variants of a subject compile, first those that ask its variants, and
        where compilers have little time, last those that are dear.

        Such an item takes as long as half of the other clauses: asked late, it leaves other workers idle.
        """
        asking = {clause.id for clause in self.spec.clauses if clause.flips or clause.made}
        groups = groupby(distinct_items(self.judge), lambda item: (item.target, item.dtype))
        return tuple(item for (target, _), group in groups for item in self._ordered(target, tuple(group), asking))

    def _ordered(self, target: str, items: Sequence[Item], first: Collection[str]) -> Sequence[Item]:
        if self.judge.hurries(target):
            dear = {clause.id: _dearness(clause) for clause in self.spec.clauses}
            return sorted(items, key=lambda item: dear.get(item.clause, 0))
        return sorted(items, key=lambda item: item.clause not in first) if self.judge.compiles(target) else items

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds every clause that is on trial."""
        clauses = dict.fromkeys(item.clause for item in distinct_items(self.judge))
        texts = tuple(text_of(clause_of(self.spec, name), self.spec) for name in clauses)
        return replace(blank, clauses=texts, sample=self.plan.sample)

    def card(self, target: str) -> SubjectCard:
        """The engine's card of the subject."""
        return self.judge.card(target)

    def carry_out(self, job: Item) -> ItemFinished:
        """Tries an item."""
        return ItemFinished(pronounce_verdict(self.judge, job, plan=self.plan, recipe=self.recipe))

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Have each failure told as it is found."""
        def pass_on(outcome: Outcome) -> None:
            item = Item(outcome.subject, outcome.clause, outcome.dtype.value)
            tell(ItemFinished(complete_outcome(outcome, item, self.plan)))

        self.judge.tell = pass_on

    def seconds_compiling(self, target: str) -> float:
        """The seconds that compilers took for a subject, as the engine says."""
        return self.judge.seconds_compiling(target)

    def record_loss(self, job: Item, loss: JobFailure) -> ItemFinished:
        """The outcome of an item that came to nothing; a death is evidence."""
        level = clause_of(self.spec, job.clause).level
        outcome = Outcome(job.target, job.clause, DType(job.dtype), level, loss.verdict)
        if loss.verdict is Verdict.NOT_RUN:
            return ItemFinished(replace(outcome, reason=loss.reason))
        evidence = Evidence(loss.reason, case="", recipe=loss.recipe or self.recipe, traceback=loss.traceback,
                            stderr=loss.stderr)
        lost = complete_outcome(replace(outcome, evidence=evidence), job, self.plan)
        return ItemFinished(lost if self.recipe else self.judge.compare_with_known(lost))

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """The counts of verdicts, and the exit code that follows from them."""
        outcomes = [each.outcome for each in done if isinstance(each, ItemFinished)]
        code = jobs.exit_code(outcomes, strict=self.plan.strict, interrupted=interrupted)
        return Conclusion(code, jobs.count_verdicts(outcomes))


AUDIT = "attnspec.runner.trial_jobs:AuditJobs"
LIBRARIES = "libraries"
"""Where a plan says which libraries are audited; none named: all."""


class AuditJobs:
    """A source of jobs of two kinds of jobs. An answer that contradicts the manifest makes the exit code 1."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        self._trials = TrialJobs(plan, breadcrumb=breadcrumb)
        self._probes = ProbeJobs(plan, breadcrumb=breadcrumb)

    @property
    def spec(self) -> Spec:
        """The engine's spec."""
        return self._trials.spec

    def items(self) -> tuple[Item | ProbeJob, ...]:
        """A subject's probes come right after its trials, so that a worker that has loaded it goes on with it."""
        by_target: dict[str, list[Item | ProbeJob]] = {}
        jobs: tuple[Item | ProbeJob, ...] = (*self._trials.items(), *self._probes.items())
        for job in jobs:
            by_target.setdefault(job.target, []).append(job)
        return tuple(job for of_one in by_target.values() for job in of_one)

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds every clause that is on trial, and who could not be put on trial."""
        return replace(self._trials.header(blank), absent=tuple(_absent(self._trials.plan)))

    def card(self, target: str) -> SubjectCard:
        """The engine's card of the subject."""
        return self._trials.card(target)

    def carry_out(self, job: Item | ProbeJob) -> Done:
        """Try the item, or probe the subject."""
        return self._probes.carry_out(job) if isinstance(job, ProbeJob) else self._trials.carry_out(job)

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Have each failure of a trial told as it is found."""
        self._trials.tell_failures(tell)

    def seconds_compiling(self, target: str) -> float:
        """The seconds that compilers took for a subject, as the engine says."""
        return self._trials.seconds_compiling(target)

    def record_loss(self, job: Item | ProbeJob, loss: JobFailure) -> Done:
        """What stands in the record for a job that came to nothing."""
        return self._probes.record_loss(job, loss) if isinstance(job, ProbeJob) else self._trials.record_loss(job, loss)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """The counts of verdicts and of contradictions. The exit code is the graver of the two."""
        trials = self._trials.conclude(done, interrupted=interrupted)
        if not any(isinstance(each, SubjectProbed) for each in done):
            return trials
        probes = self._probes.conclude(done, interrupted=interrupted)
        codes = {trials.exit_code, probes.exit_code}
        code = CANNOT_RUN if interrupted else VIOLATED if VIOLATED in codes else max(codes)
        return Conclusion(code, {**trials.counts, **probes.counts})


def _absent(plan: Plan) -> Iterator[Mapping[str, str]]:
    """The subjects of the audited libraries that cannot be judged here, each with its reason."""
    libraries = plan.more.get(LIBRARIES, ())
    for name, subject in registered_subjects(plan.implementations).items():
        if subject.why_missing and subject.library.folder in (libraries or (subject.library.folder,)):
            yield {"subject": name, "library": subject.library.name, "title": subject.title,
                   "reason": subject.why_missing}
