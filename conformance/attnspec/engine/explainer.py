"""Explains why something failed: where it begins, what it is like, what to do.

It is loaded for a first failure alone. A case that fails after other calls is put to the function
once more in a new process, to see whether it fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from attnspec.diagnosis.whereabouts import NOWHERE, FailureLocator, FailurePlace, check_place
from attnspec.engine.evidence import add_place, is_worth_explaining
from attnspec.engine.expectations import Portions
from attnspec.faults.fault import Stage
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Recipe, count_work
from attnspec.record.boundaries import weaken_boundary
from attnspec.record.outcome import MAGNITUDE_CAUSE, Evidence, Explanation
from attnspec.spec.clause import Refutations
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.subjects.watching import lives_apart
from attnspec.trials.compile import Check
from attnspec.trials.judging import LoggingEvaluator, Violated
from attnspec.trials.trial import CONVENTION_RELATION, Trial, conventions_of

MAX_PROCESSES = 2
"""At most so many failing cases get a new process: each imports a whole framework."""

HOLDS_ALONE = ("the answer depends on earlier calls, or on chance: in a new process, "
               "the case alone holds")
"""What is said if no fault of the catalogue explains it, and beside one that does."""

_STATEFUL_EXPLANATION = Explanation(
    HOLDS_ALONE, "Look for what outlives a call (a cache, a buffer, a counter), or for numbers "
                 "that are drawn. The line `again` puts the case alone, which holds: judge the "
                 "whole clause to see it fail", "")


@dataclass(slots=True)
class FreshProcessRerun:
    """Runs a failing case again in a new process, to tell whether it fails by itself.

    It may fail only after other calls. Nothing is found out about a subject that does not live in
    a process of its own.  _known_beginnings: the sizes at which cases begin to fail that hold by
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
            if not diagnosis.likely_faults:
                self._known_beginnings.add(evidence.begins)
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


class Explainer:
    """Explains the failures of one subject in a run.

    checks: those that a class of arithmetic, or a fault, is tried on if it may explain a failure.
    refutations: which of them convict which fault.
    """

    def __init__(self, subject: Subject, plan: Plan, checks: Callable[[], Mapping[str, Check]],
                 refutations: Callable[[], Refutations]) -> None:
        self._subject, self._plan = subject, plan
        self._examiner = Examiner(self._make_fresh_subject,
                                  Witnesses(Matrix(checks, refutations), plan.seed))
        self._whereabouts = FailureLocator()
        self._rerun = FreshProcessRerun(subject)
        self._raising_explainer = RaisingExplainer(subject)
        self._arithmetic = ArithmeticExplainer(checks, plan.seed)
        # the cases of clauses that hold the output of their cases against the definition
        self._failing_recipes: list[str] = []
        # where failures begin that no fault of the catalogue explains
        self._unlike_beginnings: set[str] = set()

    def is_known_fault(self, trial: Trial, recipe: Recipe) -> bool:
        """Whether a fault that explains another failure explains this one, too."""
        try:
            return self._examiner.is_known_fault(trial, recipe)
        except Exception:  # a help: without it, the case is looked into as the first one was
            return False

    def explain_failure(self, trial: Trial, evidence: Evidence,
                        error: SubjectRaised | Violated | None = None, first: Recipe | None = None,
                        holding: Sequence[Recipe] = ()) -> Evidence:
        """The evidence with where it fails, what it is like and what to do.

        error: how the case failed.  first: the case that failed, as it was met.  holding: the
        cases that may speak against it. What a known fault explains begins where that was seen to
        begin, or no one looks where.

        At a glance only the first failure is located, and nothing else is diagnosed but a missing
        lift, unless the plan has some diagnosed: a third of a subject's time; whoever replays the
        case is told.
        """
        if evidence.measured and evidence.measured.relation == CONVENTION_RELATION:
            explanation = explain_undefined(self._subject, conventions_of(trial.check),
                                            trial.evaluator.conventions)
            return replace(evidence, explained=explanation)
        if why := self._explained_by_its_ending(trial, evidence, error):
            return replace(evidence, explained=why)
        is_known = (not trial.is_glance and bool(evidence.measured)
                    and self.is_known_fault(trial, Recipe.parse(evidence.recipe)))
        place = check_place(self._find_place(trial, evidence, searches=not is_known),
                            evidence.recipe, holding)
        if trial.check.clause.holds_output:
            self._failing_recipes.append(evidence.recipe)
            place = self._as_spoken_against(place, holding)
        evidence = add_place(trial, evidence, place)
        # at a glance, too
        lift = None
        if not evidence.measured:
            lift = explain_missing_lift(self._subject, evidence.sentence)
        if lift:
            return replace(evidence, explained=lift)
        portions = Portions(self._plan, self._subject.declaration)
        is_further = portions.is_further(trial.evaluator.dtype)
        is_due = not _is_spent(trial) and (self._plan.diagnosed or not trial.is_glance)
        if not is_due or not is_worth_explaining(trial, evidence, is_further=is_further):
            return evidence
        try:
            return self._add_diagnosis(trial, evidence, place, first, is_known=is_known)
        except Exception as failed:  # a help: whatever goes wrong in it must not cost the verdict
            return replace(
                evidence,
                located=f"the diagnosis itself failed: {type(failed).__name__}: {failed}")

    def _explained_by_its_ending(self, trial: Trial, evidence: Evidence,
                                 error: SubjectRaised | Violated | None) -> Explanation | None:
        """What is said about a call that raises, or returns what is never an output."""
        if isinstance(error, SubjectRaised):
            if explain_missing_lift(self._subject, evidence.sentence):
                return None
            return self._raising_explainer.explain(error, trial.evaluator.dtype)
        if error and error.no_array:
            return self._raising_explainer.explain_return(error.no_array)
        return None

    def _add_diagnosis(self, trial: Trial, evidence: Evidence, place: FailurePlace,
                       first: Recipe | None, *, is_known: bool) -> Evidence:
        """The evidence with the arithmetic that allows it, or the faults that it is like.

        is_known: a fault that explains another failure explains it, so that no arithmetic does.
        What begins at the same sizes is the same mistake: where no fault was like it, none is
        looked for again.
        """
        recipe = Recipe.parse(evidence.recipe)
        evidence = _with_what_is_right(trial, recipe, evidence)
        measured = evidence.measured
        # a clause that allows no rounding asks for more than right answers
        if measured and measured.allowance and (
                explanation := explain_wrong_clause(trial, recipe, self._plan.spec_add)):
            return replace(evidence, explained=explanation, begins="")
        if measured and not is_known and (
                explanation := self._arithmetic.explain(trial, recipe, measured.claimed, place,
                                                        first)):
            return replace(evidence, explained=explanation)
        if evidence.begins in self._unlike_beginnings or _is_spent(trial):
            return evidence
        if self._rerun.began_alike(evidence):
            return mark_as_stateful(evidence)
        diagnose = partial(self._examiner.diagnose, trial, recipe, place=place)
        diagnosis = self._rerun.refine_diagnosis(diagnose(), trial, evidence, diagnose)
        if diagnosis.located_stage == HOLDS_ALONE and not diagnosis.likely_faults:
            return mark_as_stateful(evidence)
        if evidence.begins and not diagnosis.likely_faults:
            self._unlike_beginnings.add(evidence.begins)
        # sizes matter as far as they make numbers large
        if diagnosis.located_stage.startswith(MAGNITUDE_CAUSE):
            evidence = replace(evidence, begins="")
        return replace(evidence, like=diagnosis.likely_faults, located=diagnosis.located_stage,
                       explained=find_way_out(trial, recipe, diagnosis, place.held_recipes))

    def _as_spoken_against(self, place: FailurePlace, holding: Sequence[Recipe]) -> FailurePlace:
        """The place of the last failing case, weakened as cases that hold require.

        What was said of earlier cases is said of it, too, if nothing else is.
        """
        weak = self._whereabouts.weakened_boundary(self._failing_recipes, holding)
        if not weak or (place.begins not in {"", weak} and weaken_boundary(place.begins) != weak):
            return place
        begins = check_place(FailurePlace(weak), self._failing_recipes[-1], ()).begins
        return replace(place, begins=begins)

    def _make_fresh_subject(self) -> Subject:
        """Makes the subject anew if it is attnspec's own; others' code is not loaded twice."""
        if is_own(self._subject.id):
            return own_subject(self._subject.id)
        return self._subject

    def _find_place(self, trial: Trial, evidence: Evidence, *, searches: bool) -> FailurePlace:
        """Finds at which sizes it fails and which entries are wrong.  searches: for sizes, too."""
        failure = Violated if evidence.measured else SubjectRaised
        try:
            return self._whereabouts.locate_failure(trial, Recipe.parse(evidence.recipe), failure,
                                                    searches=searches)
        except Exception:  # a help, as above
            return NOWHERE


def _is_spent(trial: Trial) -> bool:
    """Whether compilers took all their time: each call of a diagnosis may be of a new shape."""
    compiling = trial.evaluator.compiling
    return compiling is not None and compiling.is_spent


def _with_what_is_right(trial: Trial, recipe: Recipe, evidence: Evidence) -> Evidence:
    """Adds what is right beside what is wrong, where the case asks for more than the output."""
    asks_for_more = recipe.features & {GRAD, "return_lse"}
    if not evidence.measured or not asks_for_more or count_work(recipe.sizes) > MAX_WORK_BESIDE:
        return evidence
    right = describe_right_quantities(trial.scene(recipe), recipe)
    return replace(evidence, wrong=" ".join(filter(None, (evidence.wrong, right))))
