"""Explains why something failed: where it begins, what it is like, what to do. Loaded for a first failure alone.

What fails after other calls is put to the function once more in a new process, to see whether it fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from attnspec.core.keyword_nouns import GRAD
from attnspec.core.nouns import Level
from attnspec.core.plan import Plan, is_own
from attnspec.diagnosis.advice import missing_lift, of_no_answer, of_wrong_clause, way_out
from attnspec.diagnosis.arithmetic import ArithmeticExplainer
from attnspec.diagnosis.diagnose import Diagnosis, Examiner
from attnspec.diagnosis.failing_case import judged
from attnspec.diagnosis.raising import RaisingExplainer
from attnspec.diagnosis.ranges import right_beside
from attnspec.diagnosis.whereabouts import NOWHERE, FailurePlace, Whereabouts, borne_out
from attnspec.diagnosis.witnesses import Matrix, Witnesses
from attnspec.engine.evidence import is_worth_explaining, placed
from attnspec.engine.portions import Portions
from attnspec.engine.probed import CONVENTION, conventions_of
from attnspec.faults.fault import Stage
from attnspec.faults.subject import own_subject
from attnspec.problems.demand import work
from attnspec.problems.recipe import Recipe
from attnspec.record.contradictions import weakened
from attnspec.record.outcome import MAGNITUDE, Evidence, Explanation
from attnspec.spec.refutations import Refutations
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.subjects.watching import lives_apart
from attnspec.trials.call_log import LoggingEvaluator
from attnspec.trials.compile import Check
from attnspec.trials.judging import Violated
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


MOST_BESIDE = 2**20
"""Multiply-adds of a case beyond which it is not put once more to see what is right beside what is wrong."""


class Explainer:
    """Of one subject in a run.

    checks: those that a class of arithmetic, or a fault, is tried on if it may explain a failure.  refutations: which
    of them convict which fault.
    """

    def __init__(self, subject: Subject, plan: Plan, checks: Callable[[], Mapping[str, Check]],
                 refutations: Callable[[], Refutations]) -> None:
        self._subject, self._plan = subject, plan
        self._examiner = Examiner(self._again, Witnesses(Matrix(checks, refutations), plan.seed))
        self._whereabouts = Whereabouts()
        self._alone = Alone(subject)
        self._raising = RaisingExplainer(subject)
        self._arithmetic = ArithmeticExplainer(checks, plan.seed)
        self._failing: list[str] = []  # the cases of clauses that hold the output of their cases against the definition
        self._unlike: set[str] = set()  # where failures begin that no fault of the catalogue explains

    def knows(self, trial: Trial, recipe: Recipe) -> bool:
        """Whether a fault that another failure is like is what a case shows, too. One bug breaks many clauses."""
        try:
            return self._examiner.knows(trial, recipe)
        except Exception:  # a help: without it, the case is looked into as the first one was
            return False

    def explained(self, trial: Trial, evidence: Evidence, ended: SubjectRaised | Violated | None = None,
                  first: Recipe | None = None, held: Sequence[Recipe] = ()) -> Evidence:
        """The evidence with where it fails, what it is like and what to do.

        ended: how the case failed.  first: the case that failed, as it was met.  held: the cases that may
        speak against it. What a known fault explains begins where that was seen to begin, or no one looks where.

        At a glance only the first failure is located, and nothing else is diagnosed but a missing lift, unless the plan
        has some diagnosed: a third of a subject's time; whoever replays the case is told.
        """
        if evidence.measured and evidence.measured.relation == CONVENTION:
            found = of_no_answer(self._subject, conventions_of(trial.check), trial.evaluator.conventions)
            return replace(evidence, explained=found)
        if why := self._explained_by_its_ending(trial, evidence, ended):
            return replace(evidence, explained=why)
        is_known = not trial.is_glance and bool(evidence.measured) and self.knows(trial, Recipe.parse(evidence.recipe))
        place = borne_out(self._place(trial, evidence, searches=not is_known), evidence.recipe, held)
        if trial.check.clause.holds_output:
            self._failing.append(evidence.recipe)
            place = self._as_spoken_against(place, held)
        evidence = placed(trial, evidence, place)
        if not evidence.measured and (lift := missing_lift(self._subject, evidence.sentence)):  # at a glance, too
            return replace(evidence, explained=lift)
        is_further = Portions(self._plan, self._subject.declaration).is_further(trial.evaluator.dtype)
        is_due = self._plan.diagnosed or not trial.is_glance
        if not is_due or _is_spent(trial) or not is_worth_explaining(trial, evidence, is_further=is_further):
            return evidence
        try:
            return self._diagnosed(trial, evidence, place, first, is_known=is_known)
        except Exception as failed:  # a help: whatever goes wrong in it must not cost the verdict
            return replace(evidence, located=f"the diagnosis itself failed: {type(failed).__name__}: {failed}")

    def _explained_by_its_ending(self, trial: Trial, evidence: Evidence,
                                 ended: SubjectRaised | Violated | None) -> Explanation | None:
        """What is said of a call that raises, or returns what is never an output."""
        if isinstance(ended, SubjectRaised):
            is_of_lift = missing_lift(self._subject, evidence.sentence)
            return None if is_of_lift else self._raising.explain(ended, trial.evaluator.dtype)
        return self._raising.explain_return(ended.no_array) if ended and ended.no_array else None

    def _diagnosed(self, trial: Trial, evidence: Evidence, place: FailurePlace, first: Recipe | None, *,
                   is_known: bool) -> Evidence:
        """The evidence with the arithmetic that allows it or the faults that it is like.

        is_known: a fault that another failure is like is what it shows; no arithmetic is behind that.
        What begins at the same sizes is the same mistake: where no fault was like it, none is looked for again.
        """
        recipe = Recipe.parse(evidence.recipe)
        evidence = _with_what_is_right(trial, recipe, evidence)
        allowed = evidence.measured.allowance if evidence.measured else 0.0  # without rounding, it asks for more
        if allowed and (wrong := of_wrong_clause(trial, recipe, self._plan.spec_add)):
            return replace(evidence, explained=wrong, begins="")
        if evidence.measured and not is_known and (
                explained := self._arithmetic.explain(trial, recipe, evidence.measured.claimed, place, first)):
            return replace(evidence, explained=explained)
        if evidence.begins in self._unlike or _is_spent(trial):
            return evidence
        if self._alone.explains(evidence):
            return remembering(evidence)
        diagnose = partial(self._examiner.diagnose, trial, recipe, place=place)
        diagnosis = self._alone.told(diagnose(), trial, evidence, diagnose)
        if diagnosis.located == HOLDS_ALONE and not diagnosis.like:
            return remembering(evidence)
        self._unlike |= {evidence.begins} - {""} if not diagnosis.like else set()
        if diagnosis.located.startswith(MAGNITUDE):  # sizes matter as far as they make numbers large
            evidence = replace(evidence, begins="")
        return replace(evidence, like=diagnosis.like, located=diagnosis.located,
                       explained=way_out(trial, recipe, diagnosis, place.held))

    def _as_spoken_against(self, place: FailurePlace, held: Sequence[Recipe]) -> FailurePlace:
        """The place of the last failing case; with what was told of earlier ones, where a case that holds speaks
        against that and nothing else is told of this one.
        """
        weak = self._whereabouts.spoken_against(self._failing, held)
        if not weak or (place.begins not in {"", weak} and weakened(place.begins) != weak):
            return place
        return replace(place, begins=borne_out(FailurePlace(weak), self._failing[-1], ()).begins)

    def _again(self) -> Subject:
        """The subject anew where it is one of our own; loading another's code twice is no help of ours to offer."""
        return own_subject(self._subject.id) if is_own(self._subject.id) else self._subject

    def _place(self, trial: Trial, evidence: Evidence, *, searches: bool) -> FailurePlace:
        """The sizes at which it fails and the entries that are wrong. searches: what is known already, or not."""
        failure = Violated if evidence.measured else SubjectRaised
        try:
            return self._whereabouts.place(trial, Recipe.parse(evidence.recipe), failure, searches=searches)
        except Exception:  # a help, as above
            return NOWHERE


def _is_spent(trial: Trial) -> bool:
    """Whether compilers have taken all that they may: each call of a diagnosis may be of another shape."""
    compiling = trial.evaluator.compiling
    return compiling is not None and compiling.is_spent


def _with_what_is_right(trial: Trial, recipe: Recipe, evidence: Evidence) -> Evidence:
    """The evidence with what is right beside what is wrong, where the case asks for more than the output."""
    asks_for_more = recipe.features & {GRAD, "return_lse"}
    if not evidence.measured or not asks_for_more or work(recipe.sizes) > MOST_BESIDE:
        return evidence
    told = right_beside(trial.scene(recipe), recipe)
    return replace(evidence, wrong=" ".join(filter(None, (evidence.wrong, told))))
