"""Judges one case of a clause that is put to a subject, and tallies what such cases have shown.

What a subject answered is logged call by call, so that others can be put the very same calls.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnspec.core.conventions import UNDEFINED, unfound_message
from attnspec.core.coverage import joined_spans, met_at, triples_of
from attnspec.core.declaration import Limits, with_groups
from attnspec.core.errors import SpecError
from attnspec.core.nouns import Effort
from attnspec.problems.demand import lengths_of
from attnspec.problems.domain import Domain
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Problem, Recipe, join_past
from attnspec.record.outcome import Measured, Reading
from attnspec.subjects.interview import WordedRefusal
from attnspec.subjects.subject import (
    NotDifferentiated,
    Subject,
    SubjectAnswer,
    SubjectDied,
    SubjectRaised,
    UnusableAnswer,
)
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import FIXED_KINDS, acting_features, fixed_recipes
from attnspec.trials.evaluator import MAX_CALL_SECONDS, Evaluator
from attnspec.vocabulary.observables import verdict
from attnspec.vocabulary.scene import AnyProblem, Compared, Incomparable, NoClaim, OutsideLimits, Scene

UNLIKE_SHAPES = (
    "{!r} compares runs of different shapes: {}. Let its runs keep or change the same queries and keys; the "
    "first rows of a longer run are compared by `agree_on_prefix`.")
TOO_LONG = "a call of such sizes would take it more than {:g} seconds"
NONE_SURE = "what the clause is about did not come up, or rounding or overflow may change that by any amount"
"""Why nothing is said of a case: relations compare nothing, or nothing that is bounded."""


class Violated(Exception):  # noqa: N818  (a finding, no error)
    """A relation does not hold on a case. It is raised through Hypothesis, so that it shrinks the
    case.

    no_array: what came back in place of the output, if it is no array (`UnusableAnswer.no_array`).
    """

    def __init__(self, worst: Measured, recipe: Recipe, no_array: str = "") -> None:
        super().__init__(worst.sentence)
        self.measured = worst
        self.recipe = recipe
        self.no_array = no_array


Failure = Violated | SubjectRaised | SubjectDied


class TrialEnded(BaseException):
    """Ends the trial. It is no Exception, so that Hypothesis lets it through at once."""


@dataclass(slots=True)
class Tally:
    """What a trial has met so far.

    tried_count: the problems that were put, with a claim or without.
    silent_reasons: the reasons of those without.  work: what the cases cost (`count_work`).
    claimed_recipes: the cases about which something was claimed.
    word_refusals: what the subject turned out to refuse clearly, which ended the trial.
    named_sizes: the sizes that a user names, and those beside, each with why nothing was tried
    there; "" if it was.
    sample: how many cases stood for all of the first dtype; 0 if all were tried.
    triples: of features that acted together in a case.
    held_recipes: those about which something was claimed, and which held.
    first_failing: the case that failed first, as it was met.
    is_cut_short: whether cases were left out.
    """

    tried_count: int = 0
    work: float = 0.0
    cases: int = 0
    no_claims: int = 0
    silent_reasons: dict[str, int] = field(default_factory=dict)
    outside_reasons: dict[str, int] = field(default_factory=dict)
    worst: Measured | None = None
    last_recipe: Recipe | None = None
    failure: Failure | None = None
    readings: dict[Reading, None] = field(default_factory=dict)
    claimed_recipes: list[Recipe] = field(default_factory=list)
    triples: int = 0
    named_sizes: dict[str, str] = field(default_factory=dict)
    word_refusals: tuple[WordedRefusal, ...] = ()
    sample: int = 0
    held_recipes: list[Recipe] = field(default_factory=list)
    is_cut_short: bool = False
    first_failing: Recipe | None = None

    @property
    def met_pairs(self) -> int:
        """The pairs of sizes and keywords that the claimed cases met (`core.coverage`)."""
        pairs = 0
        for recipe in self.claimed_recipes:
            pairs |= met_at(lengths_of(recipe.sizes), recipe.features)
        return pairs

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """The least and the greatest length of each axis in the claimed cases."""
        lengths = [lengths_of(recipe.sizes) for recipe in self.claimed_recipes]
        return joined_spans({axis: (length, length) for axis, length in each.items()}
                            for each in lengths)

    @property
    def why_no_claim(self) -> str:
        """Why nothing was claimed, where nothing was."""
        cases = ("its only case shows" if self.no_claims == 1
                 else f"its {self.no_claims} cases show")
        why = NONE_SURE
        if self.outside_reasons:
            why += f"; {next(iter(self.outside_reasons))}"
        elif len(self.silent_reasons) == 1:
            why = next(iter(self.silent_reasons))
        return f"{cases} nothing either way, since {why}"

    @property
    def failing_recipe(self) -> Recipe | None:
        """The case that failed, as it was put; None if none did."""
        if isinstance(self.failure, Violated):
            return self.failure.recipe
        return self.last_recipe


@dataclass(frozen=True, slots=True)
class CaseJudge:
    """A clause and a subject on its evaluator.

    breadcrumb: is told each recipe before it is tried.  compiles: whether variants that compile
    are asked. refused_by: what of sizes and keywords an exception refuses clearly, which ends the
    trial; none if it is a failure. max_call_seconds: see `evaluator.MAX_CALL_SECONDS`.
    """

    check: Check
    evaluator: Evaluator
    effort: Effort
    seed: int
    breadcrumb: Callable[[str], None]
    compiles: bool = True
    refused_by: Callable[[SubjectRaised], tuple[WordedRefusal, ...]] = lambda _: ()
    max_call_seconds: float = MAX_CALL_SECONDS

    def judge_recipe(self, recipe: Recipe) -> Tally:
        """Judges this one case; a failure is the tally's."""
        tally = Tally()
        # the tally keeps it
        with contextlib.suppress(Violated, SubjectRaised, SubjectDied, TrialEnded):
            self.judge(recipe, tally)
        return tally

    def judge(self, recipe: Recipe, tally: Tally) -> float | None:
        """Holds every relation of the clause against one case, and tallies it.

        Returns the margin of the closest call, at most 1; None if nothing was claimed. Raises
        Violated, SubjectRaised, SubjectDied, and SpecError where the clause compares what cannot
        be compared.
        """
        self.breadcrumb(recipe.text)
        no_array = ""
        try:
            recipe = fit_to_domain(recipe, self.check.domain, self.evaluator)
            # a call would take too long, by what large calls have taken so far
            if self.evaluator.expected_seconds(recipe.sizes) > self.max_call_seconds:
                raise OutsideLimits(TOO_LONG.format(self.max_call_seconds))
            measurements = list(self._measure(self.scene(recipe)))
        except NoClaim as silent:
            tally.no_claims += 1
            tally.silent_reasons[str(silent)] = tally.silent_reasons.get(str(silent), 0) + 1
            return None
        except OutsideLimits as outside:
            tally.outside_reasons[str(outside)] = tally.outside_reasons.get(str(outside), 0) + 1
            return None
        except UnusableAnswer as unusable:
            no_array = unusable.no_array
            measurements = [verdict("answers_with_an_array", str(unusable), broken=True)]
        except (SubjectRaised, SubjectDied) as error:
            if isinstance(error, SubjectRaised) and (refusals := self.refused_by(error)):
                tally.word_refusals = refusals
                raise TrialEnded from None
            tally.cases, tally.failure, tally.last_recipe = tally.cases + 1, error, recipe
            raise
        return self._conclude(measurements, recipe, tally, no_array)

    def _conclude(self, measurements: list[Measured], recipe: Recipe, tally: Tally,
                  no_array: str) -> float | None:
        is_claimed = any(each.claimed for each in measurements)
        if is_claimed:
            tally.claimed_recipes.append(recipe)
            # a clause that is about triples of features alone
            if self.check.domain.kind == "features":
                tally.triples |= self._acting_triples(recipe)
        tally.cases += is_claimed
        tally.no_claims += not is_claimed
        for each in measurements:
            tally.readings.update(dict.fromkeys(each.readings))
            if each.claimed and (tally.worst is None or each.margin > tally.worst.margin):
                tally.worst = each
        worst = max(measurements, key=lambda each: each.margin)
        if worst.margin > 1:
            tally.failure = Violated(worst, recipe, no_array)
            tally.first_failing = tally.first_failing or recipe
            raise tally.failure
        if not is_claimed:
            return None
        tally.held_recipes.append(recipe)
        return worst.margin

    def _acting_triples(self, recipe: Recipe) -> int:
        """The triples of features that act in a case."""
        problem = self.evaluator.problem(recipe, self.check.domain.poses)
        if not isinstance(problem, Problem):
            return 0
        return triples_of(acting_features(recipe, problem, self.evaluator.conventions))

    def _measure(self, scene: Scene) -> Iterator[Measured]:
        for relation in self.check.then:
            try:
                with np.errstate(all="ignore"):
                    measurement = relation(scene, scene.drawn)
            except Incomparable as shapes:
                raise SpecError(UNLIKE_SHAPES.format(self.check.clause.id, shapes),
                                where=self.check.clause.where) from None
            yield measurement

    def compared_arrays(self, scene: Scene) -> Compared | None:
        """The arrays of the relation that the case breaks worst; None if there are none."""
        scene, worst, margin = replace(scene, kept=[]), None, 1.0
        for measurement in self._measure(scene):
            arrays = scene.kept.pop() if scene.kept else None
            if measurement.margin > margin:
                worst, margin = arrays, measurement.margin
        return worst

    def scene(self, recipe: Recipe) -> Scene:
        """The case of a recipe, put to the subject in the clause's runs."""
        evaluator = self.evaluator
        problem = evaluator.problem(recipe, self.check.domain.poses)
        draws = self.check.draw_values(problem, recipe.drawn)
        runs = self.check.pose(problem, draws, recipe.without_drawn.text, evaluator.conventions,
                               evaluator.precision)
        scene = Scene(evaluator.subject, evaluator.dtype, evaluator.conventions, runs, evaluator,
                      draws, compiles=self.compiles)
        # the cases of a clause that is not searched share a rate of false alarms
        if self.check.domain.kind in FIXED_KINDS:
            scene = replace(scene, cases=max(1, len(self._fixed_recipes)))
        return scene

    @property
    def _fixed_recipes(self) -> tuple[Recipe, ...]:
        """The cases of a clause that is not searched."""
        if self.check.domain.kind not in FIXED_KINDS:
            return ()
        return fixed_recipes(self.check.domain, self._limits, self.effort, self.seed,
                             self.evaluator.subject.declaration.keywords)

    @property
    def _limits(self) -> Limits:
        return self.evaluator.subject.declaration.limits


def fit_to_domain(recipe: Recipe, domain: Domain, evaluator: Evaluator) -> Recipe:
    """The recipe without keywords that the subject does not take in this case.

    The causal flag is not put where lengths forbid it, nor beside mask or bias to a subject that
    refuses both or promises nothing; nor is any keyword where it is refused. If a subject ignores
    one of the causal flag and the mask beside the other, a clause about the ignored one is put
    without the other. Raises OutsideLimits where the clause needs both.
    """
    limits = evaluator.subject.declaration.limits
    sizes, spare_causal = recipe.sizes, "causal" in recipe.features - domain.always
    if spare_causal and not limits.takes_lengths(sizes.T, sizes.S, causal=True):
        recipe = replace(recipe, features=recipe.features - {"causal"})
    for each in limits.refuses:
        if each.meets(with_groups(sizes.by_axis), recipe.features):
            recipe = replace(recipe, features=recipe.features - (each.keywords - domain.always))
    answer = evaluator.conventions.get("mask_with_causal", "")
    ignored_keyword = {"mask": "causal", "causal": "mask"}.get(answer)
    if ignored_keyword in domain.always:
        recipe = replace(recipe, features=recipe.features - ({"causal", "mask"} - domain.always))
    has_both = {"mask", "bias"} & recipe.features and "causal" in recipe.features
    if not has_both or answer not in {"raises", "undefined"}:
        return recipe
    for spare in ({"causal"}, {"mask", "bias"}):
        if not spare & domain.always:
            return replace(recipe, features=recipe.features - spare)
    raise OutsideLimits(_refused_together(evaluator))


def _refused_together(evaluator: Evaluator) -> str:
    subject, name = evaluator.subject, "mask_with_causal"
    if name not in subject.declaration.conventions and evaluator.conventions[name] == UNDEFINED:
        return unfound_message(name, subject.id)
    return "it does not say what mask or bias do together with the causal flag"


_SHAPE_IN_WORDS = re.compile(r"of shape (\([\d, ]*\))")


class Ending(enum.Enum):
    """How a call ended."""

    ANSWERED = "answered"
    RAISED = "raised"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, eq=False)
class LoggedCall:
    """One call and its end.

    variant: the hidden switch that was flipped, "" for none.  shape: of an unusable answer, in
    words; "" where it has none.  exception_text: the exception in a line, if there was one.
    """

    problem: AnyProblem
    variant: str
    ending: Ending
    answer: SubjectAnswer | None = None
    shape: str = ""
    exception_text: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the returned array is unchanged since the call. Ask when all calls are made."""
        return self.answer is None or self.answer.is_kept()

    @property
    def without_memory(self) -> LoggedCall:
        """The call without the subject's memory of the answer, which is not to be asked."""
        if self.answer is None:
            return self
        return replace(self, answer=replace(self.answer, is_kept=lambda: True))

    @property
    def answer_given(self) -> SubjectAnswer:
        """The answer of a call that ended with one."""
        assert self.answer is not None
        return self.answer


def log_call(subject: Subject, problem: AnyProblem, variant: str = "") -> LoggedCall:
    """Puts a problem to a subject, or to its variant, and notes how the call ends."""
    arguments = subject.variants.get(variant, subject)
    try:
        with np.errstate(all="ignore"):
            answer = arguments.answer(problem)
    except NotDifferentiated as ended:  # a fault without a backward pass, asked for gradients
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=str(ended))
    except (SubjectRaised, SubjectDied, UnusableAnswer) as ended:
        return _log_failed_call(problem, variant, ended)
    return LoggedCall(problem, variant, Ending.ANSWERED, answer)


def _log_failed_call(problem: AnyProblem, variant: str,
                     error: SubjectRaised | SubjectDied | UnusableAnswer) -> LoggedCall:
    if isinstance(error, SubjectDied):
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=str(error))
    if isinstance(error, SubjectRaised):
        return LoggedCall(problem, variant, Ending.RAISED, exception_text=error.summary)
    shape = _SHAPE_IN_WORDS.search(error.sentence)
    return LoggedCall(problem, variant, Ending.UNUSABLE, shape=shape[1] if shape else "")


def is_poisoned(problem: AnyProblem) -> bool:
    """Whether NaN or infinity is among the keys or values, or the features that are turned."""
    if isinstance(problem, RotaryProblem):
        return not np.isfinite(problem.x).all()
    whole = join_past(problem)
    return not all(np.isfinite(array).all() for array in (whole.key, whole.value))


class LoggingEvaluator(Evaluator):
    """Evaluates as another evaluator does, and logs every call, those of variants too."""

    def __init__(self, subject: Subject, model: Evaluator, log: list[LoggedCall],
                 variant: str = "") -> None:
        super().__init__(subject, model.dtype, model.conventions,
                         archive=None if variant else model.archive)
        self._log, self._variant = log, variant
        if subject is model.subject:
            self._ranges = model._ranges

    def _ask(self, problem: AnyProblem) -> SubjectAnswer:
        try:
            answer = super()._ask(problem)
        except (SubjectRaised, SubjectDied, UnusableAnswer) as ended:
            self._log.append(_log_failed_call(problem, self._variant, ended))
            raise
        self._log.append(LoggedCall(problem, self._variant, Ending.ANSWERED, answer))
        return answer

    @cached_property
    def _variants(self) -> dict[str, Evaluator]:
        return {name: LoggingEvaluator(variant, self, self._log, name)
                for name, variant in self.subject.variants.items()}
