"""Whether a fault that is declared equivalent at a dtype really cannot be told from rounding there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attnspec.core.nouns import DType, Effort, Level
from attnspec.core.plan import FAULT
from attnspec.faults.catalogue import ALL
from attnspec.faults.fault import Fault
from attnspec.faults.subject import fault_subject
from attnspec.record.outcome import Measured
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Archive, Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial


@dataclass(frozen=True, slots=True)
class Excess:
    """The closest call over all clauses. A margin above 1, or an exception, convicts: the declaration is wrong.

    measured: None where no case lay in the domain of a bound.  recipe: of the case that convicts.
    """

    fault: str
    dtype: DType
    convicts: bool
    clause: str
    cases: int
    measured: Measured | None
    recipe: str = ""


def declared_equivalents() -> Iterator[tuple[Fault, DType]]:
    """Every fault with each dtype at which it is declared equivalent."""
    return ((fault, dtype) for fault in ALL for dtype in fault.equivalents)


def excess(fault: Fault, dtype: DType, *, checks: Mapping[str, Check], effort: Effort = Effort.DEFAULT, seed: int = 0,
           cases: int = 0) -> Excess:
    """Try every clause that may convict on the cases of the effort (or so many); stop at one that does.

    The clauses hold the fault to the worst-case bound of its class, on generic values to the statistical one, and to
    all that has to be equal bit for bit.
    """
    found, archive = Excess(fault.name, dtype, convicts=False, clause="", cases=0, measured=None), Archive()
    dealer = Dealer(_admit_all_dtypes(fault), lambda: checks, effort, seed)
    for check in _that_may(checks, fault):
        evaluator = Evaluator(_admit_all_dtypes(fault), dtype, archive=archive)
        trial = Trial(check, evaluator, effort, seed_of(seed, check.domain), lambda _: None, cases=cases, shrinks=False,
                      shapes=dealer.shapes(check, dtype))
        found = _closer(found, check, trial.hold())
        if found.convicts:
            break
    return found


def _that_may(checks: Mapping[str, Check], fault: Fault) -> Iterator[Check]:
    """The clauses that say `must`, and those of any level that name the fault or convict it at another dtype."""
    subject, convicting = fault_subject(FAULT + fault.name), read_refutations(load_spec()).of_fault(fault.name)
    for check in checks.values():
        named = fault.name in check.clause.refuted_by or check.clause.id in convicting
        if (named or check.clause.level is Level.MUST) and not check.why_not_put(subject):
            yield check


def _admit_all_dtypes(fault: Fault) -> Subject:
    """The fault made anew, at every dtype; its own declaration leaves out those at which it is equivalent."""
    subject = fault_subject(FAULT + fault.name)
    return replace(subject, declaration=replace(subject.declaration, dtypes=tuple(DType), left_out={}))


def _closer(before: Excess, check: Check, tally: Tally) -> Excess:
    """What is known after one more clause."""
    now = replace(before, cases=before.cases + tally.cases)
    if tally.failure is not None:
        measured = tally.failure.measured if isinstance(tally.failure, Violated) else None
        recipe = tally.failing_recipe
        return replace(now, convicts=True, clause=check.clause.id, measured=measured,
                       recipe=recipe.text if recipe else "")
    worst = tally.worst
    if worst is None or (now.measured is not None and worst.margin <= now.measured.margin):
        return now
    return replace(now, clause=check.clause.id, measured=worst)
