"""Probes as jobs: every subject and every variant of it, at every dtype, asked one question after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, AttnspecError
from attnspec.core.nouns import DType
from attnspec.core.plan import Conclusion, JobFailure, Plan
from attnspec.probing.subjects import ProbeJob, planned_probes
from attnspec.record.events import Done, Found, RunStarted, SubjectProbed
from attnspec.record.outcome import SubjectCard
from attnspec.spec.clause import Spec
from attnspec.spec.load import load_spec

if TYPE_CHECKING:
    from attnspec.probing.probe import ProbeWorker

PROBES = "attnspec.probing.jobs:ProbeJobs"
class ProbeJobs:
    """A source of jobs: each subject and variant is probed."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb

    @cached_property
    def spec(self) -> Spec:
        """The law, which is not applied; the record names it."""
        return load_spec(self.plan.spec, self.plan.spec_add)

    def items(self) -> tuple[ProbeJob, ...]:
        """Every subject of the plan."""
        return tuple(planned_probes(self.plan))

    def header(self, blank: RunStarted) -> RunStarted:
        """As it is."""
        return blank

    @cached_property
    def _worker(self) -> ProbeWorker:
        from attnspec.probing.probe import ProbeWorker  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        return ProbeWorker(self.plan)

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject."""
        return self._worker.subject(target).card({}, {})

    def carry_out(self, job: ProbeJob) -> SubjectProbed:
        """Asks every question of a subject."""
        try:
            return self._worker.probe(job.target, job.variant, DType(job.dtype))
        except AttnspecError as problem:
            return self.record_loss(job, JobFailure(str(problem)))

    def record_loss(self, job: ProbeJob, loss: JobFailure) -> SubjectProbed:
        """Nothing was found out, and why."""
        return SubjectProbed(job.target, job.variant, DType(job.dtype), (), lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """How many answers contradict the manifest."""
        probes = [each for each in done if isinstance(each, SubjectProbed)]
        counts = {"answers": sum(len(each.found) for each in probes),
                  "contradictions": len(find_contradictions(probes)),
                  "lost": sum(bool(each.lost) for each in probes)}
        is_idle = interrupted or counts["lost"] or not counts["answers"]
        code = CANNOT_RUN if interrupted else VIOLATED if counts["contradictions"] else \
            CANNOT_RUN if is_idle else CONFORMS
        return Conclusion(code, {word: count for word, count in counts.items() if count})


def find_contradictions(probes: Sequence[SubjectProbed]) -> list[Found]:
    """The answers that are not what the manifest says."""
    return [found for each in probes for found in each.found if found.is_contradiction]
