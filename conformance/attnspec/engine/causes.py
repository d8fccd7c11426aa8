"""Finds the faults that explain a failure, the arithmetic that allows it, and what to do.

Loads every fault. A case that may fail only after other calls runs again in a new process, to see
whether it fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from attnspec.core.keyword import GRAD
from attnspec.core.nouns import Level
from attnspec.core.plan import Plan, is_own
from attnspec.diagnosis.advice import (
    RaisingExplainer,
    explain_missing_lift,
    explain_undefined,
    explain_wrong_clause,
    find_way_out,
)
from attnspec.diagnosis.arithmetic import ArithmeticExplainer
from attnspec.diagnosis.boundaries import describe_right_quantities
from attnspec.diagnosis.candidate import Matrix, Witnesses, judge_case
from attnspec.diagnosis.diagnose import Diagnosis, Examiner
from attnspec.diagnosis.whereabouts import FailurePlace
from attnspec.faults.fault import Stage
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Recipe, count_work
from attnspec.record.outcome import MAGNITUDE_CAUSE, Evidence, Explanation
from attnspec.spec.clause import Refutations
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.subjects.watching import lives_apart
from attnspec.trials.compile import Check
from attnspec.trials.judging import LoggingEvaluator, Violated
from attnspec.trials.trial import Trial, conventions_of

MAX_PROCESSES = 2
"""At most so many failing cases get a new process: each imports a whole framework."""

HOLDS_ALONE = "the answer depends on earlier calls, or on chance: in a new process, the case alone holds"
"""What is said if no fault of the catalogue explains it, and beside one that does."""

_STATEFUL_EXPLANATION = Explanation(
    HOLDS_ALONE, "Look for what outlives a call (a cache, a buffer, a counter), or for numbers that are drawn. The "
                 "line `again` puts the case alone, which holds: judge the whole clause to see it fail", "")


@dataclass(slots=True)
class FreshProcessRerun:
    """Runs a failing case again in a new process, to tell whether it fails by itself.

    It may fail only after other calls. Nothing is found out about a subject that does not live in
    a process of its own. _known_beginnings: the sizes at which cases begin to fail that hold by
    themselves; what begins there is the same mistake.
    """

    subject: Subject
    _processes_left: int = MAX_PROCESSES
    _known_beginnings: set[str] = field(default_factory=set)

    def began_alike(self, evidence: Evidence) -> bool:
        """Whether a failure begins where one began that holds by itself."""
        return bool(evidence.begins) and evidence.begins in self._known_beginnings

    def refine_diagnosis(self, diagnosis: Diagnosis, trial: Trial, evidence: Evidence,
                         diagnose_again: Callable[[], Diagnosis]) -> Diagnosis:
        """The diagnosis with what a new process shows, if no fault, or one with a memory, explains
        it.

        diagnose_again: diagnoses the case once more; asked where it fails by itself and a fault
        with a memory was named. A recommendation is not worth a new process.
        """
        is_of_memory = any(each.stage == Stage.STATE.value for each in diagnosis.likely_faults)
        if not self._may_ask(trial) or (diagnosis.likely_faults and not is_of_memory):
            return diagnosis
        if self._holds_in_fresh_process(trial, Recipe.parse(evidence.recipe)):
            self._known_beginnings |= {evidence.begins} if not diagnosis.likely_faults else set()
            return replace(diagnosis, located_stage=HOLDS_ALONE)
        self._processes_left -= 1
        if not is_of_memory:
            return diagnosis
        self.subject.callee.forget()
        return diagnose_again()

    def _may_ask(self, trial: Trial) -> bool:
        is_must = trial.check.clause.level is Level.MUST
        return is_must and bool(self._processes_left) and lives_apart(self.subject.callee)

    def _holds_in_fresh_process(self, trial: Trial, recipe: Recipe) -> bool:
        self.subject.callee.forget()
        tally = judge_case(trial, LoggingEvaluator(self.subject, trial.evaluator, []), recipe)
        return tally.failure is None and bool(tally.cases)


def mark_as_stateful(evidence: Evidence) -> Evidence:
    """Marks evidence as that of a function with a memory: at which sizes it fails says nothing."""
    return replace(evidence, begins="", explained=_STATEFUL_EXPLANATION)


MAX_WORK_BESIDE = 2**20
"""Multiply-adds up to which a case is put again to see what is right beside what is wrong."""


class CauseFinder:
    """Finds the causes of the failures of one subject in a run.

    checks, refutations: as the `Explainer` has them.
    """

    def __init__(self, subject: Subject, plan: Plan, checks: Callable[[], Mapping[str, Check]],
                 refutations: Callable[[], Refutations]) -> None:
        self._subject, self._plan = subject, plan
        self._examiner = Examiner(self._make_fresh_subject,
                                  Witnesses(Matrix(checks, refutations), plan.seed))
        self._rerun = FreshProcessRerun(subject)
        self._raising_explainer = RaisingExplainer(subject)
        self._arithmetic = ArithmeticExplainer(checks, plan.seed)
        # where failures begin that no fault of the catalogue explains
        self._unlike_beginnings: set[str] = set()

    def is_known_fault(self, trial: Trial, recipe: Recipe) -> bool:
        """Whether a fault that explains another failure explains this one, too."""
        try:
            return self._examiner.is_known_fault(trial, recipe)
        except Exception:  # a help: without it, the case is looked into as the first one was
            return False

    def explain_convention(self, trial: Trial) -> Explanation | None:
        """What to say of an answer that is none of a convention's."""
        return explain_undefined(self._subject, conventions_of(trial.check),
                                 trial.evaluator.conventions)

    def explain_missing_lift(self, evidence: Evidence) -> Explanation | None:
        """What to say of a function that gets arrays of another framework."""
        return explain_missing_lift(self._subject, evidence.sentence)

    def explain_ending(self, trial: Trial, evidence: Evidence,
                       error: SubjectRaised | Violated) -> Explanation | None:
        """What to say of a call that raises, or returns what is never an output."""
        if isinstance(error, SubjectRaised):
            is_of_lift = explain_missing_lift(self._subject, evidence.sentence)
            if is_of_lift:
                return None
            return self._raising_explainer.explain(error, trial.evaluator.dtype)
        if error.no_array:
            return self._raising_explainer.explain_return(error.no_array)
        return None

    def add_diagnosis(self, trial: Trial, evidence: Evidence, place: FailurePlace,
                       first: Recipe | None, *, is_known: bool) -> Evidence:
        """The evidence with the arithmetic that allows it, or the faults that explain it.

        is_known: a fault that explains another failure explains this one, so no arithmetic does.
        Failures that begin at the same sizes are one mistake: if no fault explained one, none is
        looked for again.
        """
        recipe = Recipe.parse(evidence.recipe)
        evidence = _with_what_is_right(trial, recipe, evidence)
        # without rounding, it asks for more
        allowed = evidence.measured.allowance if evidence.measured else 0.0
        if allowed and (wrong := explain_wrong_clause(trial, recipe, self._plan.spec_add)):
            return replace(evidence, explained=wrong, begins="")
        if evidence.measured and not is_known and (
            explained := self._arithmetic.explain(trial, recipe, evidence.measured.claimed, place,
                                                  first)):
            return replace(evidence, explained=explained)
        if evidence.begins in self._unlike_beginnings or trial.is_compiling_spent:
            return evidence
        if self._rerun.began_alike(evidence):
            return mark_as_stateful(evidence)
        diagnose = partial(self._examiner.diagnose, trial, recipe, place=place)
        diagnosis = self._rerun.refine_diagnosis(diagnose(), trial, evidence, diagnose)
        if diagnosis.located_stage == HOLDS_ALONE and not diagnosis.likely_faults:
            return mark_as_stateful(evidence)
        self._unlike_beginnings |= {evidence.begins} - {""} if not diagnosis.likely_faults else set()
        # sizes matter as far as they make numbers large
        if diagnosis.located_stage.startswith(MAGNITUDE_CAUSE):
            evidence = replace(evidence, begins="")
        return replace(evidence, like=diagnosis.likely_faults, located=diagnosis.located_stage,
                       explained=find_way_out(trial, recipe, diagnosis, place.held_recipes))

    def _make_fresh_subject(self) -> Subject:
        """Makes the subject anew if it is attnspec's own; others' code is not loaded twice."""
        if is_own(self._subject.id):
            return own_subject(self._subject.id)
        return self._subject


def _with_what_is_right(trial: Trial, recipe: Recipe, evidence: Evidence) -> Evidence:
    """Adds what is right beside what is wrong, where the case asks for more than the output."""
    asks_for_more = recipe.features & {GRAD, "return_lse"}
    if not evidence.measured or not asks_for_more or count_work(recipe.sizes) > MAX_WORK_BESIDE:
        return evidence
    told = describe_right_quantities(trial.scene(recipe), recipe)
    return replace(evidence, wrong=" ".join(filter(None, (evidence.wrong, told))))
