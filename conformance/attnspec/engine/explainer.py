"""Explains where a failure begins and what it is like. Loaded for a first failure only.

What tells causes apart (causes.py) knows every fault, and is loaded only when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from attnspec.core.plan import Plan
from attnspec.diagnosis.whereabouts import NOWHERE, FailureLocator, FailurePlace, check_place
from attnspec.engine.evidence import add_place, is_worth_explaining
from attnspec.engine.expectations import Portions
from attnspec.problems.problem import Recipe
from attnspec.record.boundaries import weaken_boundary
from attnspec.record.outcome import Evidence
from attnspec.spec.clause import Refutations
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.trials.compile import Check
from attnspec.trials.judging import Violated
from attnspec.trials.trial import CONVENTION_RELATION, Trial

if TYPE_CHECKING:
    from attnspec.engine.causes import CauseFinder


class Explainer:
    """Explains the failures of one subject in a run.

    checks: those that a class of arithmetic, or a fault, is tried on if it may explain a failure.
    refutations: which of them convict which fault.
    """

    def __init__(self, subject: Subject, plan: Plan, checks: Callable[[], Mapping[str, Check]],
                 refutations: Callable[[], Refutations]) -> None:
        self._subject, self._plan = subject, plan
        self._checks, self._refutations = checks, refutations
        self._whereabouts = FailureLocator()
        # the cases of clauses that hold the output of their cases against the definition
        self._failing_recipes: list[str] = []

    @cached_property
    def _causes(self) -> CauseFinder:
        from attnspec.engine.causes import CauseFinder  # noqa: PLC0415  (weight: every fault, where none is asked for)

        return CauseFinder(self._subject, self._plan, self._checks, self._refutations)

    def is_known_fault(self, trial: Trial, recipe: Recipe) -> bool:
        """Whether a fault that explains another failure explains this one, too."""
        return self._causes.is_known_fault(trial, recipe)

    def explain_failure(self, trial: Trial, evidence: Evidence,
                        error: SubjectRaised | Violated | None = None, first: Recipe | None = None,
                        holding: Sequence[Recipe] = ()) -> Evidence:
        """The evidence with where it fails, what it is like and what to do.

        error: how the case failed. first: the case that failed, as it was met. holding: the cases
        that may speak against it. What a known fault explains begins where that was seen to begin,
        or no one looks where.

        At a glance only the first failure is located, and nothing else is diagnosed but a missing
        lift, unless the plan has some diagnosed: a third of a subject's time; whoever replays the
        case is told.
        """
        if evidence.measured and evidence.measured.relation == CONVENTION_RELATION:
            return replace(evidence, explained=self._causes.explain_convention(trial))
        is_answered = isinstance(error, Violated) and not error.no_array
        if error and not is_answered and (why := self._causes.explain_ending(trial, evidence, error)):
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
            lift = self._causes.explain_missing_lift(evidence)
        if lift:
            return replace(evidence, explained=lift)
        is_further = Portions(self._plan,
                              self._subject.declaration).is_further(trial.evaluator.dtype)
        is_due = self._plan.diagnosed or not trial.is_glance
        is_due = is_due and not trial.is_compiling_spent
        if not is_due or not is_worth_explaining(trial, evidence, is_further=is_further):
            return evidence
        try:
            return self._causes.add_diagnosis(trial, evidence, place, first, is_known=is_known)
        except Exception as failed:  # a help: whatever goes wrong in it must not cost the verdict
            return replace(
                evidence,
                located=f"the diagnosis itself failed: {type(failed).__name__}: {failed}")

    def _as_spoken_against(self, place: FailurePlace, holding: Sequence[Recipe]) -> FailurePlace:
        """The place of the last failing case, weakened as cases that hold require.

        What was said of earlier cases is said of it, too, if nothing else is.
        """
        weak = self._whereabouts.weakened_boundary(self._failing_recipes, holding)
        if not weak or (place.begins not in {"", weak} and weaken_boundary(place.begins) != weak):
            return place
        return replace(
            place, begins=check_place(FailurePlace(weak), self._failing_recipes[-1], ()).begins)

    def _find_place(self, trial: Trial, evidence: Evidence, *, searches: bool) -> FailurePlace:
        """Finds at which sizes it fails and which entries are wrong. searches: for sizes, too."""
        failure = Violated if evidence.measured else SubjectRaised
        try:
            return self._whereabouts.locate_failure(trial, Recipe.parse(evidence.recipe), failure,
                                                    searches=searches)
        except Exception:  # a help, as above
            return NOWHERE
