"""Whether what fails after other calls fails by itself as well: the case is put to the function in a new process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import Level
from attnspec.diagnosis.diagnose import Diagnosis
from attnspec.diagnosis.failing_case import judged
from attnspec.faults.fault import Stage
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Evidence, Explanation
from attnspec.subjects.subject import Subject
from attnspec.subjects.watching import lives_apart
from attnspec.trials.call_log import LoggingEvaluator
from attnspec.trials.trial import Trial

MOST = 2
"""So many cases that fail alone are put to a new process: each costs the imports of the function's framework."""

HOLDS_ALONE = "the answer depends on earlier calls, or on chance: in a new process, the case alone holds"
"""What is said where no fault of the catalogue is like it, and beside the one that is."""

_REMEMBERS = Explanation(
    HOLDS_ALONE, "Look for what outlives a call (a cache, a buffer, a counter), or for numbers that are drawn. The "
                 "line `again` puts the case alone, which holds: judge the whole clause to see it fail", "")


@dataclass(slots=True)
class Alone:
    """Of one subject, which lives in a process of its own, or nothing is found out.

    known: the sizes at which cases begin to fail that hold by themselves; what begins there is the same mistake.
    """

    subject: Subject
    _left: int = MOST
    _known: set[str] = field(default_factory=set)

    def explains(self, evidence: Evidence) -> bool:
        """Whether a failure begins where one began that holds by itself."""
        return bool(evidence.begins) and evidence.begins in self._known

    def told(self, diagnosis: Diagnosis, trial: Trial, evidence: Evidence, anew: Callable[[], Diagnosis]) -> Diagnosis:
        """The diagnosis with what a new process says, where no fault or one with a memory is like the failure.

        anew: diagnoses the case once more; asked where it fails by itself and a fault with a memory was named.
        A recommendation is not worth a new process.
        """
        is_of_memory = any(each.stage == Stage.STATE.value for each in diagnosis.like)
        if not self._may_ask(trial) or (diagnosis.like and not is_of_memory):
            return diagnosis
        if self._holds(trial, Recipe.parse(evidence.recipe)):
            self._known |= {evidence.begins} if not diagnosis.like else set()
            return replace(diagnosis, located=HOLDS_ALONE)
        self._left -= 1
        if not is_of_memory:
            return diagnosis
        self.subject.callee.forget()
        return anew()

    def _may_ask(self, trial: Trial) -> bool:
        is_must = trial.check.clause.level is Level.MUST
        return is_must and bool(self._left) and lives_apart(self.subject.callee)

    def _holds(self, trial: Trial, recipe: Recipe) -> bool:
        self.subject.callee.forget()
        tally = judged(trial, LoggingEvaluator(self.subject, trial.evaluator, []), recipe)
        return tally.failure is None and bool(tally.cases)


def remembering(evidence: Evidence) -> Evidence:
    """The evidence of what holds by itself and is like no fault: at which sizes it was seen says nothing."""
    return replace(evidence, begins="", explained=_REMEMBERS)
