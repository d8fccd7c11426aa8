"""Whether the diagnosis names a fault when someone else makes the same mistake: put to the double of a fault."""

from __future__ import annotations

from dataclasses import replace

from attnspec.court.bench import SubjectBench
from attnspec.court.compile import Check
from attnspec.court.diagnosis import Diagnosis, diagnose
from attnspec.court.failing import judged
from attnspec.court.openings import seed_of
from attnspec.court.trial import Trial
from attnspec.faults.doubles import Arithmetic, double
from attnspec.faults.subject import own_subject
from attnspec.ground.nouns import DType, Effort
from attnspec.problems.recipe import Recipe
from attnspec.subjects.subject import Subject


def named(subject: Subject, dtype: DType, check: Check, recipe: Recipe, *,
          arithmetic: Arithmetic = Arithmetic.REORDERED, effort: Effort = Effort.QUICK, seed: int = 0) -> Diagnosis:
    """What the diagnosis says of the double of a fault, on the case that convicted the fault.

    Rounded otherwise, a fault at the edge of rounding may pass that case: the clause then finds one of its own, without
    shrinking. Nothing is named where it finds none.
    """
    def again() -> Subject:
        return double(own_subject(subject.id), arithmetic)

    trial = Trial(check, SubjectBench(again(), dtype), effort, seed_of(seed, check.domain), lambda _: None,
                  shrinks=False)
    failing = recipe if judged(trial, trial.bench, recipe).failure is not None else _own_case(trial, again())
    return Diagnosis() if failing is None else diagnose(trial, failing, again=again)


def _own_case(trial: Trial, subject: Subject) -> Recipe | None:
    """The first case on which the clause convicts the double itself."""
    return replace(trial, bench=SubjectBench(subject, trial.bench.dtype)).hold().failing
