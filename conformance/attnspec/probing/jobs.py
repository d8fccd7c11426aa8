"""Makes jobs of probes: every subject and variant, at every dtype, is asked all questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from attnspec.core.declaration import Declaration
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, AttnspecError
from attnspec.core.nouns import DType
from attnspec.core.plan import Conclusion, JobFailure, Plan
from attnspec.faults.witnesses import declaration_of_target
from attnspec.record.events import Done, Found, RunStarted, SubjectProbed, part_of_probe
from attnspec.record.outcome import SubjectCard
from attnspec.spec.clause import Spec, first_of
from attnspec.spec.load import load_spec
from attnspec.subjects.registry import registered_subjects

if TYPE_CHECKING:
    from attnspec.probing.probe import ProbeWorker


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """A subject, or one of its variants, at one dtype."""

    target: str
    variant: str
    dtype: str

    @property
    def part(self) -> str:
        """Returns the name of the part in the record."""
        return part_of_probe(self.variant)

    @property
    def id(self) -> str:
        """Returns the job's name."""
        return f"{self.target}-{self.part}-{self.dtype}"


def planned_probes(plan: Plan) -> Iterator[ProbeJob]:
    """Yields the probes of each subject at every dtype, and of its variants at the first. A bare
    function has no variants, and its dtypes are not known yet.
    """
    known = registered_subjects(plan.implementations)
    for target in dict.fromkeys(plan.targets):
        declaration = declaration_of_target(target, known)
        for dtype in offered_dtypes(declaration, plan):
            variants = declaration.variants if dtype is main_dtype(declaration, plan) else ()
            yield from (ProbeJob(target, variant, dtype.value) for variant in ("", *variants))


def offered_dtypes(declaration: Declaration, plan: Plan) -> list[DType]:
    """Returns the dtypes at which a subject is probed."""
    return [dtype for dtype in declaration.dtypes if not plan.dtypes or dtype in plan.dtypes]


def main_dtype(declaration: Declaration, plan: Plan) -> DType:
    """Returns the dtype at which everything is asked: float32, or the first."""
    return first_of(offered_dtypes(declaration, plan))


PROBE_JOBS = "attnspec.probing.jobs:ProbeJobs"


class ProbeJobs:
    """A source of jobs, each of which probes a subject or a variant."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb

    @cached_property
    def spec(self) -> Spec:
        """Returns the spec, which is not applied; the record names it."""
        return load_spec(self.plan.spec, self.plan.spec_add)

    def items(self) -> tuple[ProbeJob, ...]:
        """Returns the jobs of every subject of the plan."""
        return tuple(planned_probes(self.plan))

    def header(self, blank: RunStarted) -> RunStarted:
        """Returns the header as it is."""
        return blank

    @cached_property
    def _probe_worker(self) -> ProbeWorker:
        from attnspec.probing.probe import ProbeWorker  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        return ProbeWorker(self.plan)

    def card(self, target: str) -> SubjectCard:
        """Returns what a report says of a subject."""
        return self._probe_worker.subject(target).card({}, {})

    def carry_out(self, job: ProbeJob) -> SubjectProbed:
        """Asks every question of a subject."""
        try:
            dtype = DType(job.dtype)
            declaration = self._probe_worker.subject(job.target).declaration
            return self._probe_worker.probe(job.target, job.variant, dtype,
                                            whole=dtype is main_dtype(declaration, self.plan))
        except AttnspecError as problem:
            return self.record_loss(job, JobFailure(str(problem)))

    def record_loss(self, job: ProbeJob, loss: JobFailure) -> SubjectProbed:
        """Records why nothing was found out."""
        return SubjectProbed(job.target, job.variant, DType(job.dtype), (), lost=loss.reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """Counts how many answers contradict the manifest."""
        probes = [each for each in done if isinstance(each, SubjectProbed)]
        counts = {"answers": sum(len(each.found) for each in probes),
                  "contradictions": len(find_contradictions(probes)),
                  "lost": sum(bool(each.lost) for each in probes)}
        code = CONFORMS
        if counts["contradictions"] and not interrupted:
            code = VIOLATED
        elif interrupted or counts["lost"] or not counts["answers"]:
            code = CANNOT_RUN
        return Conclusion(code, {word: count for word, count in counts.items() if count})


def find_contradictions(probes: Sequence[SubjectProbed]) -> list[Found]:
    """Returns the answers that are not what the manifest says."""
    return [found for each in probes for found in each.found if found.is_contradiction]
