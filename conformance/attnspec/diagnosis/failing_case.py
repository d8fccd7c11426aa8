"""A failing case as others can be put it: every call of it, and what the answers are held to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from attnspec.core.nouns import Kind
from attnspec.diagnosis.candidate import FaultCandidate, as_candidate
from attnspec.diagnosis.tolerance import AnswerRuler, Aspect, ComparisonStandard
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.problems.problem import Recipe
from attnspec.problems.rotary import RotaryProblem
from attnspec.trials.call_log import Ending, LoggedCall, LoggingEvaluator, is_poisoned
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial

NO_MISTAKE = Fault("no_mistake", Stage.STATE, "Nothing is wrong.", "never", staged())
"""Attention as it is defined, put in the place of a fault."""

LARGE = 2**15
"""Scores (B·H·T·S) of a failing case beyond which only faults that the panel bears out are put to it."""


def judge_case(trial: Trial, evaluator: Evaluator, recipe: Recipe) -> Tally:
    """The clause on one case before another evaluator."""
    return replace(trial, evaluator=evaluator, breadcrumb=lambda _: None).judge_recipe(recipe)


@dataclass(frozen=True, slots=True, eq=False)
class FailingCase:
    """The failing case: every call that the subject was put in judging it. fails: whether it failed again.  held: the
    case at sizes at which the subject does not fail.
    """

    trial: Trial
    recipe: Recipe
    bar: ComparisonStandard
    log: tuple[LoggedCall, ...]
    fails: bool
    held_recipes: tuple[Recipe, ...] = ()
    _rulers: dict[int, AnswerRuler] = field(default_factory=dict)
    _candidates: dict[str, FaultCandidate] = field(default_factory=dict)
    _explained_by_fault: dict[str, bool] = field(default_factory=dict)
    _too_wide: dict[str, bool] = field(default_factory=dict)

    @property
    def is_large(self) -> bool:
        """Whether putting the case to every fault is dear."""
        sizes = [step.problem.sizes for step in self.log]
        return sum(size.B * size.H * size.T * size.S for size in sizes) > LARGE

    @property
    def is_defined(self) -> bool:
        """Whether there is a right answer to all of it: some clauses are about calls that make no sense."""
        return all(isinstance(step.problem, RotaryProblem) or step.problem.key.shape[-2] == step.problem.value.shape[-2]
                   for step in self.log)

    @property
    def raises(self) -> bool:
        """Whether the subject raised in it."""
        return any(step.ending is Ending.RAISED for step in self.log)

    @property
    def is_poisoned(self) -> bool:
        """Whether the case is about entries that are not finite."""
        return any(is_poisoned(step.problem) for step in self.log)

    def explains(self, fault: Fault) -> bool:
        """Whether the fault, put the same calls, answers as the subject did, and fails as well, where attention without
        a mistake does not; found out once.
        """
        if fault.name not in self._explained_by_fault:
            self._explained_by_fault[fault.name] = self._explains(fault) and not self._is_explained_without_mistake
        return self._explained_by_fault[fault.name]

    @property
    def _is_explained_without_mistake(self) -> bool:
        """Whether attention without a mistake, but for its answer to a row that sees no key, would be named as well:
        such a row has no definition, so that answers are not compared there.
        """
        if self.bar.subject.declaration.kind is Kind.ROTARY:
            return False
        if NO_MISTAKE.name not in self._explained_by_fault:
            self._explained_by_fault[NO_MISTAKE.name] = self._explains(NO_MISTAKE)
        return self._explained_by_fault[NO_MISTAKE.name]

    def _explains(self, fault: Fault) -> bool:
        candidate = self._candidate(fault)
        return all(self._is_alike(candidate, index) for index in range(len(self.log))) and (
            self.bar.aspect is not Aspect.KEPT or self._keeps_alike(candidate)) and self._convicts(fault)

    def nearness(self, fault: Fault) -> float:
        """How near the fault's answers are to the subject's where they are furthest; below 1, nearer than the truth.

        No call is put after one where they are further apart than that.
        """
        candidate, furthest = self._candidate(fault), 0.0
        for index, step in enumerate(self.log):
            furthest = max(furthest, self._ruler(index).nearness(step, candidate.step(index)))
            if furthest >= 1:
                break
        return furthest

    def _candidate(self, fault: Fault) -> FaultCandidate:
        if fault.name not in self._candidates:
            calls = [(step.problem, step.variant) for step in self.log]
            self._candidates[fault.name] = FaultCandidate(fault, self._choose_bar(fault), calls)
        return self._candidates[fault.name]

    def _is_alike(self, candidate: FaultCandidate, index: int) -> bool:
        return self._ruler(index).are_alike(self.log[index], candidate.step(index),
                                            partial(candidate.shake_call, index))

    def _keeps_alike(self, candidate: FaultCandidate) -> bool:
        """Whether answers are kept, or not, by both: asked when all calls are made."""
        return all(step.is_kept is candidate.step(index).is_kept for index, step in enumerate(self.log))

    def _convicts(self, fault: Fault) -> bool:
        return self._fails(self._in_its_place(fault), self.recipe)

    def is_too_wide(self, fault: Fault) -> bool:
        """Whether the fault fails where the subject holds, put the failing case before. Found out once.

        One with a memory may fail at other calls than the subject does: it is too wide if it fails at all of them.
        Asked of a case beside which some hold.
        """
        if fault.name not in self._too_wide:
            candidate, is_told_by = self._in_its_place(fault), all if fault.stage is Stage.STATE else any
            self._fails(candidate, self.recipe)
            self._too_wide[fault.name] = is_told_by(self._fails(candidate, recipe) for recipe in self.held_recipes)
        return self._too_wide[fault.name]

    def _in_its_place(self, fault: Fault) -> Evaluator:
        candidate = as_candidate(fault, self.bar.subject, self._choose_bar(fault).conventions)
        return LoggingEvaluator(candidate, self.trial.evaluator, [])

    def _choose_bar(self, fault: Fault) -> ComparisonStandard:
        """The bar at which a fault stands in the subject's place; without a mistake, rows that see no key are zeros."""
        if fault is not NO_MISTAKE:
            return self.bar
        others = {name: answer for name, answer in self.bar.conventions.items()
                  if name.partition(".")[0] != "hidden_row"}
        return replace(self.bar, conventions=others)

    def _fails(self, candidate: Evaluator, recipe: Recipe) -> bool:
        return judge_case(self.trial, candidate, recipe).failure is not None

    def _ruler(self, index: int) -> AnswerRuler:
        """What the answers to one call are held to; whether they are kept is seen when all calls are made."""
        if index not in self._rulers:
            bar = replace(self.bar, aspect=Aspect.NONE) if self.bar.aspect is Aspect.KEPT else self.bar
            self._rulers[index] = bar.ruler(self.log[index].problem)
        return self._rulers[index]
