"""An audit as jobs: every clause is tried, and every subject and variant is probed, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from attnspec.core.errors import CANNOT_RUN, VIOLATED
from attnspec.core.plan import Conclusion, Item, JobFailure, Plan
from attnspec.probing.jobs import ProbeJobs
from attnspec.probing.subjects import ProbeJob
from attnspec.record.events import Done, RunStarted
from attnspec.record.measurements import SubjectProbed
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import Breadcrumb
from attnspec.runner.trial_jobs import TrialJobs
from attnspec.spec.clause import Spec
from attnspec.subjects.registry import registered_subjects

AUDIT = "attnspec.runner.audit:AuditJobs"
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
        """The engine's."""
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
        if subject.missing and subject.library.folder in (libraries or (subject.library.folder,)):
            yield {"subject": name, "library": subject.library.name, "title": subject.title, "reason": subject.missing}
