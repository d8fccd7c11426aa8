"""How a subject fares on the panel, and beside it the faults that are suspected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from attnspec.core.nouns import DType
from attnspec.diagnosis.failing_case import FailingCase
from attnspec.diagnosis.inputs import PANELS, DiagnosticInputs
from attnspec.diagnosis.tolerance import Aspect, Bar
from attnspec.faults.fault import Fault
from attnspec.record.outcome import Likeness
from attnspec.trials.call_log import Ending, LoggedCall

BOTH = 2

PATIENCE = 4
"""A fault that is contradicted more often than that, and more often than not, is put no further calls."""


@dataclass(frozen=True, slots=True, eq=False)
class FaultMatch:
    """How well a fault matches the subject: on the calls where either is wrong, how often they agree.

    unbroken: how many clauses that were asked about it, and that the subject violates, it leaves whole.
    """

    fault: Fault
    agreed: int
    tried: int
    unbroken: int = 0

    @property
    def missed(self) -> int:
        """How often they disagree."""
        return self.tried - self.agreed

    @property
    def likeness(self) -> Likeness:
        """For the record."""
        fault, name = self.fault, self.fault.name.partition("@")[0]
        return Likeness(name, fault.stage, fault.story, fault.link, self.agreed, self.tried)


@dataclass(frozen=True, slots=True, eq=False)
class Faring:
    """How the subject fares on the panel: its calls, and whether each is right."""

    bar: Bar
    panel: DiagnosticInputs
    steps: tuple[LoggedCall, ...]
    right: tuple[bool, ...]

    @classmethod
    def of(cls, bar: Bar, dtype: DType) -> Faring:
        """Put the panel to the subject of a bar."""
        panel = PANELS.panel(bar, dtype)
        steps = panel.put_to(bar.subject)
        return cls(bar, panel, steps, tuple(each.is_right(step, is_subject=True)
                                            for each, step in zip(panel.rulers, steps, strict=True)))

    def beside(self, fault: Fault, case: FailingCase) -> FaultMatch:
        """How a fault fares on the panel, where either it or the subject is wrong, and on the failing case."""
        agreed, tried = int(case.fails), int(case.fails)
        for is_agreed in self._agreed(fault, case, len(self.steps)):
            agreed, tried = agreed + is_agreed, tried + 1
            if tried - agreed > max(agreed, PATIENCE):
                break
        return FaultMatch(fault, agreed, tried)

    def bears_out(self, fault: Fault, case: FailingCase, *, of_old: bool = False) -> bool:
        """Whether no call of the panel speaks against the fault; it is put no further than the first that does.

        of_old: only calls count that it was put before.
        """
        return all(self._agreed(fault, case, self.panel.candidate(fault).answered if of_old else len(self.steps)))

    def _agreed(self, fault: Fault, case: FailingCase, calls: int) -> Iterator[bool]:
        """Whether fault and subject agree, call by call.

        Where the subject raises, it may not be meant to answer; that NaN leaks is another matter than most mistakes.
        """
        candidate = self.panel.candidate(fault)
        if case.bar.aspect is Aspect.KEPT and self.steps:
            candidate.step(len(self.steps) - 1)  # whether answers are kept shows when all calls are made
        for index in range(calls):
            held_to, seen, is_right = self.panel.rulers[index], self.steps[index], self.right[index]
            step = candidate.step(index)
            poisoned = self.panel.poisoned[index] and not case.is_poisoned
            if poisoned or (seen.ending is Ending.RAISED and not case.raises):
                continue
            wrong = (not is_right) + (not self.panel.is_right(fault, index))
            if wrong == BOTH:
                yield held_to.are_alike(seen, step, partial(candidate.shaken, index))
            elif wrong and not held_to.are_close(seen, step):
                yield False
