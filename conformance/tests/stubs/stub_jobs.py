"""A source of jobs without attention: the name of a target says what befalls its job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from attnspec.core.nouns import DType
from attnspec.core.plan import Conclusion, JobFailure, Plan
from attnspec.record.events import Done, RunStarted, SubjectPut
from attnspec.record.outcome import SubjectCard
from attnspec.spec.clause import Spec


@dataclass(frozen=True, slots=True)
class Stubbing:
    target: str
    part: str = "seed 0"
    dtype: str = "float32"

    @property
    def id(self) -> str:
        return f"{self.target}-{self.dtype}"


class Docket:
    spec: Spec = Spec("0", "d" * 64, (), {})

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan, self._breadcrumb = plan, breadcrumb

    def items(self) -> tuple[Stubbing, ...]:
        return tuple(Stubbing(target) for target in self.plan.targets)

    def header(self, blank: RunStarted) -> RunStarted:
        return replace(blank, rules=({"name": "stub"},))

    def card(self, target: str) -> SubjectCard | None:
        return None if target != "carded" else SubjectCard(target, "a card", "", "", "", "", {}, {}, {}, ())

    def carry_out(self, job: Stubbing) -> SubjectPut:
        self._breadcrumb("a case")
        if job.target == "crash":
            os.abort()
        if job.target == "slow":
            time.sleep(30)
        return _put(job)

    def record_loss(self, job: Stubbing, loss: JobFailure) -> SubjectPut:
        return replace(_put(job), lost=f"{loss.verdict.value}: {loss.reason} ({loss.recipe})")

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        return Conclusion(2 if interrupted else 0, {"put": len(done)})


def _put(job: Stubbing) -> SubjectPut:
    return SubjectPut(job.target, DType(job.dtype), 0, is_fault=True, stage="", equivalent="", convictions=())
