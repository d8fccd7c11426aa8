"""A kernel is judged, in a worker: its process is started, every clause tried, and all of it forgotten again."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from attnspec.core.errors import AttnspecError, EndedError
from attnspec.core.nouns import FAILURES, DType, Level, Verdict, does_gate_run
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.hosting.client import close_all
from attnspec.record.events import FirstFailure, KernelRanked, KernelStanding
from attnspec.record.outcome import Measured, Outcome
from attnspec.report.bugs import likely_group
from attnspec.report.likely_cause import CONSEQUENCES
from attnspec.runner.jobs import is_idle
from attnspec.runner.judge import clause_of, not_run, pronounce_verdict
from attnspec.spec.clause import first_of
from attnspec.subjects.watching import GIVEN_UP, MOST_HANGS
from attnspec.trials.evaluator import Archives, hand_back

HANGS = 2
"""So many items may end at the deadline; then the kernel is dropped, since each costs as long."""

def clearest_first(items: Sequence[Item]) -> Sequence[Item]:
    """Orders items so that the first failure says the most: at float32, or else the first dtype, first, where every
    clause is put; last what follows from other mistakes.
    """
    main = first_of([dtype for dtype in DType if dtype.value in {item.dtype for item in items}]) if items else None
    return sorted(items, key=lambda item: (main and item.dtype != main.value,
                                           item.clause.partition(".")[0] in CONSEQUENCES))


class KernelWorker:
    """Judges one kernel after the other. Problems, and what the definition says of them, are kept for the next."""

    def __init__(self, plan: Plan, stop_after: int, breadcrumb: Callable[[str], None]) -> None:
        self._plan, self._stop_after = plan, stop_after
        self._engine = Engine(plan, breadcrumb=breadcrumb, archives=Archives())

    def rank(self, target: str) -> KernelRanked:
        """The line of one kernel. What escapes is a defect of attnspec."""
        began = time.perf_counter()
        try:
            ranked = self._judge_kernel(target)
        except AttnspecError as cause:
            ended = str(cause) if isinstance(cause, EndedError) else ""
            ranked = KernelRanked(target, KernelStanding.NOT_JUDGED, reason=str(cause), death=ended)
        finally:
            self._engine.forget(target)
            close_all()
            hand_back()
        return replace(ranked, seconds=time.perf_counter() - began)

    def _judge_kernel(self, target: str) -> KernelRanked:
        self._engine.fetch(target)
        score, items = KernelScore(), clearest_first(self._engine.items_of(target))
        for number, item in enumerate(items):
            score.outcomes.append(self._judge_item(item))
            if why := self._why_enough(score):
                score.untried, score.stopped = self._applying(items[number + 1:]), why
                break
        ranked = score.conclude_kernel(target, strict=self._plan.strict)
        refused = dict.fromkeys((*self._engine.find_refused(target), *ranked.refused))
        return replace(ranked, refused=tuple(refused))

    def _judge_item(self, item: Item) -> Outcome:
        """The outcome of one item. An error of attnspec's own costs the kernel this item, and is its reason."""
        try:
            return pronounce_verdict(self._engine, item, plan=self._plan)
        except Exception as defect:
            last = traceback.extract_tb(defect.__traceback__)[-1]
            told = f"{type(defect).__name__}: {defect} (in {Path(last.filename).name}:{last.lineno})"
            level = clause_of(self._engine.spec, item.clause).level
            return not_run(item, level, f"attnspec itself failed at {item.clause}, which is its defect: {told}")

    def _why_enough(self, score: KernelScore) -> str:
        """Why a kernel is dropped; empty as long as it is not."""
        if self._stop_after and len(score.failing_clauses) >= self._stop_after:
            number = len(score.failing_clauses)
            return f"dropped after {number} failing {'clause' if number == 1 else 'clauses'}"
        hangs = HANGS if score.hangs >= HANGS else MOST_HANGS if score.is_given_up else 0
        return f"dropped after {hangs} calls that did not return" if hangs else ""

    def _applying(self, items: Sequence[Item]) -> frozenset[str]:
        """The `must` clauses among these items that would have been put."""
        spec = self._engine.spec
        return frozenset(item.clause for item in items if clause_of(spec, item.clause).level is Level.MUST
                         and self._engine.applies(item))


# What a kernel's outcomes come to


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
    def failing_clauses(self) -> tuple[str, ...]:
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

    def conclude_kernel(self, subject: str, *, strict: bool) -> KernelRanked:
        """The line of the kernel, without its seconds."""
        failing = self.failing_clauses
        executed = {each.clause for each in self._musts if each.verdict in _HELD}
        held = executed.difference(failing, self.untried)
        untried = self.untried.difference(failing)
        every = len(held) + len(failing) + len(untried)
        margin, closest = _closest(self.outcomes)
        return KernelRanked(
            subject, _kernel_standing(self.outcomes, strict=strict), len(held) / every if every else 0.0, len(held),
            len(failing), len(untried), failing, _first(self.outcomes, strict=strict), margin, closest,
            _grades(self.outcomes), _refused_words(self.outcomes), stopped=self.stopped, death=_death(self.outcomes),
            reason=_reason(self.outcomes))


def _kernel_standing(outcomes: Sequence[Outcome], *, strict: bool) -> KernelStanding:
    if any(does_gate_run(each.verdict, each.level, strict=strict) for each in outcomes):
        return KernelStanding.VIOLATED
    is_short = is_idle(outcomes) or any(each.verdict is Verdict.NOT_RUN for each in outcomes)
    return KernelStanding.NOT_JUDGED if is_short else KernelStanding.CONFORMS


def _reason(outcomes: Sequence[Outcome]) -> str:
    """Why something was not run, or why nothing applied."""
    lost = (each.reason for each in outcomes if each.verdict is Verdict.NOT_RUN)
    return next(lost, outcomes[0].reason if outcomes and is_idle(outcomes) else "")


def _first(outcomes: Iterable[Outcome], *, strict: bool) -> FirstFailure | None:
    failure = next((each for each in outcomes if each.verdict in FAILURES
                    and does_gate_run(each.verdict, each.level, strict=strict)), None)
    if failure is None:
        return None
    evidence, found = failure.evidence, likely_group((failure,))
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


def _refused_words(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in outcomes for name in each.refused))


def _death(outcomes: Iterable[Outcome]) -> str:
    """How its process ended for the first time, and under which clause."""
    return next((f"{each.reason} ({each.clause} {each.dtype.value})" for each in outcomes if each.verdict in _DIED), "")
