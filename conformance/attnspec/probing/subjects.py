"""What is probed: subjects, their variants, and at which dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnspec.core.declaration import Declaration
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.faults.witnesses import declaration_of_target
from attnspec.record.events import part_of_probe
from attnspec.spec.clause import first_of
from attnspec.subjects.registry import registered_subjects


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """A subject, or one of its variants, at one dtype."""

    target: str
    variant: str
    dtype: str

    @property
    def part(self) -> str:
        """As in the record."""
        return part_of_probe(self.variant)

    @property
    def id(self) -> str:
        """The job's name."""
        return f"{self.target}-{self.part}-{self.dtype}"


def planned_probes(plan: Plan) -> Iterator[ProbeJob]:
    """Subject by subject, at every dtype; its variants at the first. Of a bare function nobody knows yet which dtypes
    it supports; it has no variants.
    """
    known = registered_subjects(plan.implementations)
    for target in dict.fromkeys(plan.targets):
        declaration = declaration_of_target(target, known)
        for dtype in offered_dtypes(declaration, plan):
            variants = declaration.variants if dtype is main_dtype(declaration, plan) else ()
            yield from (ProbeJob(target, variant, dtype.value) for variant in ("", *variants))


def offered_dtypes(declaration: Declaration, plan: Plan) -> list[DType]:
    """The dtypes at which a subject is probed."""
    return [dtype for dtype in declaration.dtypes if not plan.dtypes or dtype in plan.dtypes]


def main_dtype(declaration: Declaration, plan: Plan) -> DType:
    """The one of them at which everything is asked: float32, or the first that there is."""
    return first_of(offered_dtypes(declaration, plan))
