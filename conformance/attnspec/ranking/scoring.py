"""What a kernel's outcomes come to: its score, its first failure, and how close it came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.core.nouns import FAILURES, Level, Verdict, gates
from attnspec.record.outcome import Measured, Outcome
from attnspec.record.ranked import FirstFailure, KernelRanked, KernelStanding
from attnspec.report.bugs import likely
from attnspec.runner.jobs import idle
from attnspec.subjects.watching import GIVEN_UP

GRADE = "precision grade"
"""The quantity of the reading that tells it."""

_HELD = frozenset({Verdict.HELD, Verdict.EXPECTED})
_DIED = frozenset({Verdict.CRASHED, Verdict.TIMED_OUT})


@dataclass(slots=True)
class KernelScore:
    """Counts how the `must` clauses of one kernel come out. untried: those that applied and were dropped."""

    outcomes: list[Outcome] = field(default_factory=list)
    untried: frozenset[str] = frozenset()
    stopped: str = ""

    @property
    def failing(self) -> tuple[str, ...]:
        """The clauses that failed at some dtype, in the order in which they did."""
        return tuple(dict.fromkeys(each.clause for each in self._musts if each.verdict in FAILURES))

    @property
    def hangs(self) -> int:
        """How many items ended at the deadline."""
        return sum(each.verdict is Verdict.TIMED_OUT for each in self.outcomes)

    @property
    def is_given_up(self) -> bool:
        """Whether no further call is made, since several in a row did not return."""
        return any(each.reason == GIVEN_UP for each in self.outcomes)

    @property
    def _musts(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.level is Level.MUST]

    def concluded(self, subject: str, *, strict: bool) -> KernelRanked:
        """The line of the kernel, without its seconds."""
        failing = self.failing
        executed = {each.clause for each in self._musts if each.verdict in _HELD}
        held = executed.difference(failing, self.untried)
        untried = self.untried.difference(failing)
        every = len(held) + len(failing) + len(untried)
        margin, closest = _closest(self.outcomes)
        return KernelRanked(
            subject, _standing(self.outcomes, strict=strict), len(held) / every if every else 0.0, len(held),
            len(failing), len(untried), failing, _first(self.outcomes, strict=strict), margin, closest,
            _grades(self.outcomes), _refused(self.outcomes), stopped=self.stopped, death=_death(self.outcomes),
            reason=_reason(self.outcomes))


def _standing(outcomes: Sequence[Outcome], *, strict: bool) -> KernelStanding:
    if any(gates(each.verdict, each.level, strict=strict) for each in outcomes):
        return KernelStanding.VIOLATED
    is_short = idle(outcomes) or any(each.verdict is Verdict.NOT_RUN for each in outcomes)
    return KernelStanding.NOT_JUDGED if is_short else KernelStanding.CONFORMS


def _reason(outcomes: Sequence[Outcome]) -> str:
    """Why something was not run, or why nothing applied."""
    lost = (each.reason for each in outcomes if each.verdict is Verdict.NOT_RUN)
    return next(lost, outcomes[0].reason if outcomes and idle(outcomes) else "")


def _first(outcomes: Iterable[Outcome], *, strict: bool) -> FirstFailure | None:
    failure = next((each for each in outcomes if each.verdict in FAILURES
                    and gates(each.verdict, each.level, strict=strict)), None)
    if failure is None:
        return None
    evidence, found = failure.evidence, likely((failure,))
    cause = found.cause if found else None
    return FirstFailure(failure.clause, failure.dtype.value, failure.reason or (evidence.sentence if evidence else ""),
                        cause.says if cause else "", cause.fault if cause else "", evidence.begins if evidence else "",
                        failure.repeat)


def _closest(outcomes: Iterable[Outcome]) -> tuple[float, str]:
    """The largest margin of `must` clauses, of failures too, and where it was met."""
    met = [(_margin(measured), f"{each.clause} {each.dtype.value}") for each in outcomes if each.level is Level.MUST
           for measured in (each.worst, each.evidence.measured if each.evidence else None) if measured]
    return max(met, default=(0.0, ""), key=lambda pair: pair[0])


def _margin(measured: Measured) -> float:
    return math.inf if math.isnan(measured.margin) else measured.margin


def _grades(outcomes: Iterable[Outcome]) -> Mapping[str, str]:
    return {each.dtype.value: str(reading.value) for each in outcomes for reading in each.readings
            if reading.quantity == GRADE}


def _refused(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in outcomes for name in each.refused))


def _death(outcomes: Iterable[Outcome]) -> str:
    """How its process ended for the first time, and under which clause."""
    return next((f"{each.reason} ({each.clause} {each.dtype.value})" for each in outcomes if each.verdict in _DIED), "")
