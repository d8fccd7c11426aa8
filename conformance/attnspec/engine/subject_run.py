"""Tries the clauses on one subject: its evaluators by dtype, and the verdict on each clause and
contract.

A contract's words are put in a small problem each, and all of them in one: whether the subject
takes what it says. What a function of one's own turns out to refuse while it is judged is kept
here, too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from attnspec.core.coverage import triples_taken, write_pairs
from attnspec.core.declaration import Deviation, Limits
from attnspec.core.effort import CUT_SHORT, LEFT_OUT
from attnspec.core.errors import FileLocation, UsageError, hint
from attnspec.core.forms import EVERY_KEYWORD
from attnspec.core.keyword import GRAD
from attnspec.core.keywords import BESIDE, VALUED, load_parts
from attnspec.core.nouns import DType, Effort, Kind, Level, Verdict, is_bare
from attnspec.core.plan import Plan
from attnspec.engine.expectations import Portions, find_deviation
from attnspec.engine.summon import compiling_time, samples_gradients, with_clause_gradients
from attnspec.problems.choices import traits_within
from attnspec.problems.demand import nearest_sizes
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, Sizes, count_logits, count_work
from attnspec.problems.size_plan import taken_pairs
from attnspec.record.outcome import Evidence, Outcome, SubjectCard
from attnspec.spec.clause import ALL, Contract, Refutations, contract_id
from attnspec.subjects.baseline import parse_case
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.interview import WordedRefusal, case_of, value_for
from attnspec.subjects.refusals import MOST_CAUSES, BegunInterview, begin_interview, narrow_subject
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.watching import (
    GIVEN_UP_SENTENCE,
    Asking,
    asking_for,
    incidents_of,
    repeat_first,
    surviving_errors,
)
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Archives, Evaluator
from attnspec.trials.judging import Failure, Tally, Violated
from attnspec.trials.sizes import Dealer, RequestedSizes, requested_sizes
from attnspec.trials.trial import Trial, add_probed, unfinished_evidence

if TYPE_CHECKING:
    from attnspec.engine.explainer import Explainer


SMALL_SIZES = Sizes(B=1, H=1, Hkv=1, T=16, S=16, D=16, Dv=16)
MAX_SCORES, MAX_WORK = 2**27, 2**34
"""Scores (B·H·T·S) and multiply-adds up to which all words are put together."""

_FOLLOWING_AXES = {"T": "S", "S": "T", "D": "Dv", "Dv": "D", "H": "Hkv", "Hkv": "H"}
"""Axes that are as long as a named one, unless they are named themselves."""


def try_word(subject: Subject, contract: Contract, word: str, dtype: DType) -> Outcome:
    """Whether the subject takes one word of the contract at a dtype."""
    if dtype not in subject.declaration.dtypes:
        reason = subject.declaration.left_out.get(dtype,
                                                  f"{subject.id} does not take {dtype.value}")
        if word == dtype.value:
            return _contract_outcome(subject, word, dtype, Verdict.VIOLATED,
                                     reason=_format_broken_word(word, reason))
        return _contract_outcome(subject, word, dtype, Verdict.INAPPLICABLE, reason=reason)
    if word in {each.value for each in contract.dtypes if each is not dtype}:
        return _contract_outcome(subject, word, dtype, Verdict.INAPPLICABLE,
                                 reason=f"it is tested at {word}")
    if word != ALL and (lacking := subject.lacks(frozenset({word} & {*contract.keywords}))):
        return _contract_outcome(subject, word, dtype, Verdict.VIOLATED,
                                 reason=_format_broken_word(word, lacking))
    recipe = recipe_for(contract, word, subject.declaration.limits)
    if word == ALL and (reason := _why_too_large(recipe.sizes)
                        or _find_word_refused_alone(subject, contract, dtype)):
        return _contract_outcome(subject, word, dtype, Verdict.INAPPLICABLE, reason=reason)
    return try_recipe(subject, word, dtype, recipe)


def try_recipe(subject: Subject, word: str, dtype: DType, recipe: Recipe) -> Outcome:
    """Whether the subject answers this problem with an array of the right shape, right or not."""
    problem = make_problem(recipe, dtype)
    if reason := subject.refuses(problem):
        return _contract_outcome(subject, word, dtype, Verdict.VIOLATED, recipe,
                                 reason=_format_broken_word(word, reason))
    try:
        subject.answer(problem)
    except (SubjectRaised, UnusableAnswer) as error:
        trace = error.traceback if isinstance(error, SubjectRaised) else ""
        return _contract_outcome(subject, word, dtype, Verdict.VIOLATED, recipe,
                                 reason=_format_broken_word(word, str(error)), trace=trace)
    except SubjectDied as death:
        return _contract_outcome(subject, word, dtype, death.verdict, recipe, reason=str(death),
                                 trace=death.traceback)
    return _contract_outcome(subject, word, dtype, Verdict.HELD)


def recipe_for(contract: Contract, word: str, limits: Limits) -> Recipe:
    """The problem with what the word says, and otherwise what the subject is known to take."""
    if word == ALL:
        keywords, lengths = set(contract.keywords), contract.largest
    else:
        keywords, lengths = {word} & {*contract.keywords}, _size_of_word(contract, word)
    keywords = keywords.union(*map(limits.brings, keywords))
    if limits.causal_only:
        keywords.add("causal")
    keywords |= {BESIDE[name] for name in keywords & BESIDE.keys()}
    following = {_FOLLOWING_AXES[axis]: size for axis, size in lengths.items()
                 if axis in _FOLLOWING_AXES}
    sizes = replace(nearest_sizes(SMALL_SIZES, limits), **{**following, **lengths})
    return _contract_recipe(sizes, frozenset(keywords), limits)


def _size_of_word(contract: Contract, word: str) -> dict[str, int]:
    """The size that a word says, and that of the axis that follows it, if another word says it."""
    if word not in contract.sizes:
        return {}
    axis, size = contract.sizes[word]
    lengths, partner = {axis: size}, _FOLLOWING_AXES.get(axis, "")
    if partner in contract.largest:
        lengths[partner] = contract.largest[partner]
    return lengths


def _contract_recipe(sizes: Sizes, keywords: frozenset[str], limits: Limits) -> Recipe:
    values = {name: value_for(name, limits) for name in keywords & VALUED.keys()}
    scale = value_for("scale", limits) if "scale" in keywords else 1.0
    mask = "all_true" if "mask" in keywords else "none"
    return Recipe(sizes, ("normal",), mask, keywords, 0, scale=scale, values=values)


def _why_too_large(sizes: Sizes) -> str:
    scores = count_logits(sizes)
    if scores <= MAX_SCORES and scores * (sizes.D + sizes.Dv) <= MAX_WORK:
        return ""
    return f"all of it together is too large to test here ({sizes}); each word is tested by itself"


def _find_word_refused_alone(subject: Subject, contract: Contract, dtype: DType) -> str:
    """That a word is refused by itself already; empty if none is."""
    for word in (*contract.keywords, *contract.sizes):
        outcome = try_word(subject, contract, word, dtype)
        if outcome.verdict is not Verdict.HELD:
            return f"{outcome.clause} fails already, on its own"
    return ""


def _format_broken_word(word: str, why: str) -> str:
    """That the contract is broken, and by what."""
    return f"the contract says {'all of it together' if word == ALL else word}: {why}"


def _contract_outcome(subject: Subject, word: str, dtype: DType, verdict: Verdict,
                      recipe: Recipe | None = None, *, reason: str = "",
                      trace: str = "") -> Outcome:
    evidence = None
    if recipe:
        evidence = Evidence(reason, str(recipe.sizes), recipe.text, traceback=trace)
    return Outcome(subject.id, contract_id(word), dtype, Level.MUST, verdict, reason,
                   int(recipe is not None or verdict is Verdict.HELD), evidence=evidence)


@dataclass(slots=True)
class Refusals:
    """Finds what one subject refuses while it is judged."""

    subject: Subject
    _begun_by_dtype: dict[DType, BegunInterview | None] = field(default_factory=dict)

    @property
    def is_asked(self) -> bool:
        """Whether the subject is a function without a manifest, which would say what it takes."""
        return is_bare(self.subject.id) and self.subject.declaration.kind is not Kind.LAYER

    def refusal_finder(self, dtype: DType) -> Callable[[SubjectRaised], tuple[WordedRefusal, ...]]:
        """Makes the function that finds, for one trial, what an exception refuses.

        Words that were no refusal once are not asked about again.
        """
        failures = set[str]()

        def find_refused(error: SubjectRaised) -> tuple[WordedRefusal, ...]:
            if not self.is_asked or error.asked is None or error.gist in failures:
                return ()
            refusals: tuple[WordedRefusal, ...] = ()
            if refusal_words(error, error.asked, home=self.subject.home):
                with asking_for(self.subject, Asking.TAKES):
                    if interview := self._begin_at_dtype(dtype):
                        refusals = interview.find_refused(case_of(error.asked))
            if not refusals:
                failures.add(error.gist)
            return refusals

        return find_refused

    def _begin_at_dtype(self, dtype: DType) -> BegunInterview | None:
        if dtype not in self._begun_by_dtype:
            self._begun_by_dtype[dtype] = begin_interview(self.subject, dtype)
        return self._begun_by_dtype[dtype]

    def add_refusals(self, outcome: Outcome, narrowed_subject: Subject) -> Outcome:
        """The outcome of a trial of a narrowed subject, with the refusals that narrowed it."""
        refusals = {name: words for name, words in narrowed_subject.refused_words.items()
                    if name not in self.subject.refused_words}
        return replace(outcome, refused=refusals) if refusals else outcome


MAX_SMALL_SIZES = 3
"""A further failing case is put first at so many sizes to which earlier ones were shrunk."""

KNOWN_FAILURE_CASES = 10
"""How many cases look for a listed failure for which no case is listed."""


class SubjectRun:
    """Tries the clauses on one subject.

    checks: those that a class of arithmetic, or a fault, is tried on if it may explain one.
    refutations: which of them convict which fault.  archives: what it shares with other subjects,
    if it shares anything.
    """

    def __init__(self, subject: Subject, plan: Plan, breadcrumb: Callable[[str], None],
                 checks: Callable[[], Mapping[str, Check]] = dict,
                 refutations: Callable[[], Refutations] = Refutations) -> None:
        self.subject = subject
        self.archives: Archives | None = None
        self.tell: Callable[[Outcome], None] = lambda _: None
        """Is told a clause that fails before its smallest case and a cause are found."""
        self.held_recipes: dict[tuple[str, DType], tuple[Recipe, ...]] = {}
        """By clause and dtype: the cases of it that held."""
        self._diagnosed_count = 0
        self._is_card_asked = False
        self.plan = plan
        self.breadcrumb = breadcrumb
        self._checks, self._refutations = checks, refutations
        self._evaluators: dict[DType, Evaluator] = {}
        # by clause, the case at the first dtype that failed
        self._failed_recipes: dict[str, Recipe] = {}
        self._raised_gists: set[str] = set()
        self._refusals = Refusals(subject)
        self._compiling = compiling_time(plan, subject)
        self._dealer = Dealer(subject, checks, plan.effort, plan.seed,
                              hurries=self._compiling is not None)

    def evaluator(self, dtype: DType) -> Evaluator:
        """The subject at one dtype, with its conventions there.

        A constant that hides keys may do so at one dtype and overflow at another, so each dtype is
        probed for itself.
        """
        if dtype not in self._evaluators:
            plain = Evaluator(self.subject, dtype)
            self._evaluators[dtype] = (self.archives.share_archive(plain) if self.archives
                                       else plain)
            self._evaluators[dtype].compiling = self._compiling
        return self._evaluators[dtype]

    @cached_property
    def card(self) -> SubjectCard:
        """What a report says about the subject. It is asked after every item."""
        declaration, precision, backward = self.subject.declaration, {}, {}
        answers = self.evaluator(declaration.dtypes[0]).conventions
        probed_answers = {name: answer for name, answer in answers.items()
                          if name not in declaration.conventions}
        for dtype in declaration.dtypes:
            precision[dtype.value] = str(self.evaluator(dtype).precision)
            # of one that is not asked for gradients nothing is said
            if GRAD in declaration.keywords:
                backward[dtype.value] = self.evaluator(dtype).backward_name
        pairs = write_pairs(taken_pairs(declaration.limits, declaration.keywords))
        traits = frozenset(traits_within(declaration.limits, declaration.keywords))
        triples = ""
        if declaration.kind is Kind.ATTENTION:
            triples = write_pairs(triples_taken(declaration.keywords, traits))
        card = self.subject.card(probed_answers, precision)
        return replace(card, taken=pairs, backward=backward, triples=triples,
                       passing_error=self._describe_what_passes())

    def _describe_what_passes(self) -> str:
        """The largest error that the subject's classes allow, in a sentence; empty if none."""
        classes = [self.evaluator(each).precision for each in self.subject.declaration.dtypes]
        for part in load_parts("stored_format"):
            sentence: str = part.describe_what_passes(classes)
            if sentence:
                return sentence
        return ""

    def try_clause(self, check: Check, dtype: DType) -> Outcome:
        """The verdict on one clause at one dtype."""
        clause = check.clause
        if dtype not in self.subject.declaration.dtypes:
            reason = self.subject.declaration.left_out.get(
                dtype, f"the subject does not take {dtype.value}")
            return self._make_inapplicable(check, dtype, reason)
        is_spared = self.spares(check, dtype)
        if reason := check.why_not_put(with_clause_gradients(self.subject, check)):
            if (broken := self._broken_claims(check)) and clause.level is Level.MUST and not is_spared:
                reason = f"the subject claims {' and '.join(map(repr, broken))}, but {reason}"
                return self._make_outcome(check, dtype, Verdict.VIOLATED, reason=reason)
            return self._make_inapplicable(check, dtype, reason)
        if is_spared:
            return self._make_inapplicable(check, dtype, self._portions.why_spared(clause, dtype))
        return self._why_left_out(check, dtype) or self._try_within_limits(check, dtype)

    def _why_left_out(self, check: Check, dtype: DType) -> Outcome | None:
        """The outcome of a clause that is left out: calls hang, or compilers took all time."""
        incidents, compiling = incidents_of(self.subject), self._compiling
        if incidents is not None and incidents.is_given_up:
            return self._make_outcome(check, dtype, Verdict.NOT_RUN, reason=GIVEN_UP_SENTENCE)
        if compiling and compiling.is_spent and not self._find_known_deviation(check, dtype):
            return self._make_outcome(check, dtype, Verdict.NO_CLAIM,
                                      reason=LEFT_OUT.format(compiling.seconds_a_shape))
        return None

    @property
    def seconds_compiling(self) -> float:
        """The seconds that a compiler has taken so far, by the clock."""
        incidents = incidents_of(self.subject)
        return incidents.times.compiling if incidents else 0.0

    def with_incidents(self, outcome: Outcome) -> Outcome:
        """The outcome with incidents: failures outside of trials fail the first must-clause that
        held.
        """
        incidents = incidents_of(self.subject)
        if incidents is None:
            return outcome
        if not self._is_card_asked:
            self._is_card_asked = True
            with surviving_errors(self.subject), contextlib.suppress(SubjectDied):
                _ = self.card  # what is still asked for it counts, too
        incidents.raise_defect()
        repeat_first(self.subject)
        if outcome.level is not Level.MUST:
            return outcome
        incidents.tell_verdict(outcome.verdict)
        if outcome.verdict not in (Verdict.HELD, Verdict.NO_CLAIM):
            return outcome
        failures = incidents.pop_met()
        if not failures:
            return outcome
        reason = "; ".join(each.sentence for each in failures)
        return replace(outcome, verdict=failures[0].verdict, reason=reason)

    def applies(self, check: Check, dtype: DType) -> bool:
        """Whether the clause is tried at this dtype."""
        return (dtype in self.subject.declaration.dtypes and not self.spares(check, dtype)
                and not check.why_not_put(self.subject))

    def spares(self, check: Check, dtype: DType) -> bool:
        """Whether the clause is not put at this dtype, though it could be."""
        return self._portions.spares(check.clause, dtype)

    @property
    def _portions(self) -> Portions:
        is_sampled = samples_gradients(self.plan, self.subject)
        return Portions(self.plan, self.subject.declaration, samples_gradients=is_sampled)

    def _try_within_limits(self, check: Check, dtype: DType) -> Outcome:
        """The verdict within what the subject takes: after a clear refusal, a trial begins anew.

        What one trial finds out is no limit to another: a clause has the same verdict whatever was
        judged before it.
        """
        evaluator = self._evaluator_for(check, dtype)
        for attempts_left in range(MOST_CAUSES, -1, -1):
            if reason := check.why_not_put(evaluator.subject):
                return self._refusals.add_refusals(self._make_inapplicable(check, dtype, reason),
                                                   evaluator.subject)
            trial = self._make_trial(check, evaluator)
            # what is listed as a failure is one, whatever its words
            known_failure = self._try_known_case(trial)
            if attempts_left:
                trial = replace(trial, refused_by=self._refusals.refusal_finder(dtype))
            tally = known_failure or trial.hold()
            if not tally.word_refusals:
                outcome = add_probed(self._conclude_trial(trial, tally), check, evaluator)
                return self._refusals.add_refusals(outcome, evaluator.subject)
            subject = narrow_subject(evaluator.subject, tally.word_refusals)
            evaluator = evaluator.with_limits_of(subject)
        raise AssertionError("the last trial takes refusals for failures")

    def _evaluator_for(self, check: Check, dtype: DType) -> Evaluator:
        evaluator, subject = self.evaluator(dtype), with_clause_gradients(self.subject, check)
        if subject is self.subject:
            return evaluator
        return evaluator.with_limits_of(subject)

    def replay(self, check: Check, dtype: DType, recipe: str) -> Outcome:
        """The verdict on one case."""
        trial = self._make_trial(check, self._evaluator_for(check, dtype))
        case = Recipe.parse(recipe)
        if unknown := sorted(case.drawn.keys() - check.clause.draw.keys()):
            raise UsageError(
                f"the recipe has {unknown[0]}={case.drawn[unknown[0]]}, and the clause "
                f"{check.clause.id!r} draws no such value.{hint(unknown[0], check.clause.draw)}")
        return self._conclude_trial(trial, trial.judge_recipe(case))

    def claims(self, profile: str) -> bool:
        """Whether the subject claims a profile; every subject claims core."""
        return profile == "core" or profile in self.subject.declaration.claims

    def _find_known_deviation(self, check: Check, dtype: DType) -> Deviation | None:
        return find_deviation(self.subject.declaration.deviations, check.clause.id, dtype)

    def _try_known_case(self, trial: Trial) -> Tally | None:
        """Tries the listed case of a failure; None if none is listed, or it holds."""
        dtype = trial.evaluator.dtype
        case = self.subject.replays.get((trial.check.clause.id, dtype.value), "")
        where = self.subject.entry or FileLocation("")
        if deviation := self._find_known_deviation(trial.check, dtype):
            case, where = deviation.case, deviation.where
        if not case:
            return None
        # how fast this machine is decides nothing about a listed case
        trial = replace(trial, max_call_seconds=math.inf)
        tally = trial.judge_recipe(parse_case(case, where))
        return tally if tally.failure else None

    def _make_trial(self, check: Check, evaluator: Evaluator) -> Trial:
        # the listed failure is not shrunk anew in every run
        known = self._find_known_deviation(check, evaluator.dtype)
        # each smaller case would be compiled
        is_spent = self._compiling is not None and self._compiling.is_spent
        trial = Trial(check, evaluator, self.plan.effort, seed_of(self.plan.seed, check.domain),
                      self.breadcrumb,
                      shrinks=known is None and not self._has_enough_diagnoses and not is_spent,
                      cases=KNOWN_FAILURE_CASES if known and not known.case else 0,
                      failed_before=self._failed_recipes.get(check.clause.id),
                      raised_before=frozenset(self._raised_gists),
                      shapes=self._dealer.shapes(check, evaluator.dtype,
                                                 evaluator.subject.declaration.limits),
                      named_sizes=self._requested_sizes(check, evaluator),
                      sample=self._portions.sample(check.clause, evaluator.dtype),
                      small_sizes=self._small_sizes, is_explained=self._is_known_mistake)
        until = self._compiling.end_of_clause if self._compiling and not known else math.inf
        return replace(trial, compiling_ends=until,
                       tell_failure=partial(self._tell_failure, trial))

    def _tell_failure(self, trial: Trial, failure: Failure, recipe: Recipe) -> None:
        """Reports a failure when it is found, so that it is known if shrinking is interrupted."""
        evidence = unfinished_evidence(trial, failure, recipe)
        verdict = Verdict.ERRORED if isinstance(failure, SubjectRaised) else Verdict.VIOLATED
        self.tell(self._make_outcome(trial.check, trial.evaluator.dtype, verdict,
                                     reason=evidence.sentence, evidence=evidence))

    def _requested_sizes(self, check: Check, evaluator: Evaluator) -> tuple[RequestedSizes, ...]:
        """The sizes that the user names, or the subject declares, where the clause is put them."""
        declared = evaluator.subject.declaration
        if evaluator.dtype not in declared.main_dtypes:
            return ()
        return requested_sizes(check, evaluator.subject,
                               dict.fromkeys((*self.plan.sizes, *declared.sizes)))

    def _broken_claims(self, check: Check) -> list[str]:
        """The claimed profiles that promise a keyword which the subject does not take."""
        # not asked for is no broken promise
        missing = check.needs - self.subject.with_gradients.declaration.keywords
        return sorted({EVERY_KEYWORD[name].profile for name in missing
                       if self.claims(EVERY_KEYWORD[name].profile)})

    def _make_inapplicable(self, check: Check, dtype: DType, reason: str) -> Outcome:
        return self._make_outcome(check, dtype, Verdict.INAPPLICABLE, reason=reason)

    def _conclude_trial(self, trial: Trial, tally: Tally) -> Outcome:
        check, dtype = trial.check, trial.evaluator.dtype
        self.held_recipes[check.clause.id, dtype] = tuple(tally.held_recipes)
        if tally.failure:
            return self._conclude_failure(trial, tally, tally.failure)
        if tally.cases:
            return self._make_outcome(check, dtype, Verdict.HELD, tally,
                                      reason=self._why_short(tally))
        # the rest was no case of the clause at all
        if tally.outside_reasons and tally.no_claims == sum(tally.silent_reasons.values()):
            return self._make_outcome(check, dtype, Verdict.INAPPLICABLE, tally,
                                      reason=next(iter(tally.outside_reasons)))
        return self._make_outcome(check, dtype, Verdict.NO_CLAIM, tally, reason=tally.why_no_claim)

    def _why_short(self, tally: Tally) -> str:
        """Why cases were left out of a clause that held; empty if none were."""
        if self._compiling and tally.is_cut_short:
            return CUT_SHORT.format(self._compiling.seconds_a_shape)
        return ""

    def _conclude_failure(self, trial: Trial, tally: Tally, failure: Failure) -> Outcome:
        """The verdict on a failure. A subject that dies is asked nothing more."""
        from attnspec.engine.evidence import make_evidence  # noqa: PLC0415  (weight: pictures, where nothing fails)

        evidence = make_evidence(trial, failure, tally.last_recipe)
        verdict = failure.verdict if isinstance(failure, SubjectDied) else Verdict.VIOLATED
        if isinstance(failure, SubjectRaised):
            verdict = Verdict.VIOLATED if self._declines(trial.check, failure) else Verdict.ERRORED
            self._raised_gists.add(failure.gist)
        if not isinstance(failure, SubjectDied):
            evidence = self._add_diagnosis(trial, evidence, failure, tally.first_failing,
                                           self._cases_that_hold(trial))
        return self._make_outcome(trial.check, trial.evaluator.dtype, verdict, tally,
                                  reason=evidence.sentence, evidence=evidence)

    def _cases_that_hold(self, trial: Trial) -> tuple[Recipe, ...]:
        """The cases that held so far and may speak against a boundary.

        They are those of this clause and, if it compares the output of its cases with the
        definition, of all clauses that do so.
        """
        dtype, clause = trial.evaluator.dtype, trial.check.clause
        own, checks = self.held_recipes.get((clause.id, dtype), ()), self._checks()
        if not clause.holds_output:
            return own
        cases = list(own)
        for (name, other_dtype), recipes in self.held_recipes.items():
            if (name != clause.id and other_dtype is dtype and name in checks
                    and checks[name].clause.holds_output):
                cases += recipes
        return tuple(cases)

    def _declines(self, check: Check, error: SubjectRaised) -> bool:
        """Whether the function declines what is only recommended, in words and not by accident."""
        if check.clause.level is Level.MUST or error.asked is None:
            return False
        return bool(refusal_words(error, error.asked, home=self.subject.home))

    def _add_diagnosis(self, trial: Trial, evidence: Evidence, error: SubjectRaised | Violated,
                       first: Recipe | None, holding: Sequence[Recipe]) -> Evidence:
        """The evidence with what explains it.

        error: how the case failed.  first: the case that failed, as it was met.  holding: cases
        that held. A known deviation is described in its listing, and of a form that compiles each
        case is a program. Where the plan has some failures diagnosed, only these are.
        """
        if not trial.shrinks or not evidence.recipe or trial.is_sparing:
            return evidence
        if self.plan.diagnosed and not self._is_of_the_diagnosed(trial):
            return evidence
        self._failed_recipes.setdefault(trial.check.clause.id, Recipe.parse(evidence.recipe))
        with asking_for(self.subject, Asking.CAUSES):
            return self._explainer.explain_failure(trial, evidence, error, first, holding)

    @property
    def _small_sizes(self) -> tuple[Sizes, ...]:
        """The sizes of failing cases that were shrunk, the least work first."""
        sizes = {recipe.sizes for recipe in self._failed_recipes.values()}
        return tuple(sorted(sizes, key=count_work)[:MAX_SMALL_SIZES])

    def _is_known_mistake(self, trial: Trial, recipe: Recipe) -> bool:
        """Whether what explains an earlier failure explains this case."""
        if not self._failed_recipes or trial.is_glance:
            return False
        with asking_for(self.subject, Asking.CAUSES):
            return self._explainer.is_known_fault(trial, recipe)

    @cached_property
    def _explainer(self) -> Explainer:
        from attnspec.engine.explainer import Explainer  # noqa: PLC0415  (weight: every fault, where nothing fails)

        return Explainer(self.subject, self.plan, self._checks, self._refutations)

    @property
    def _has_enough_diagnoses(self) -> bool:
        """Whether a glance has diagnosed as many failures as the plan says."""
        return (self.plan.effort is Effort.GLANCE
                and 0 < self.plan.diagnosed <= self._diagnosed_count)

    def _is_of_the_diagnosed(self, trial: Trial) -> bool:
        """Whether this failure of a `must` clause is among the first, which a glance diagnoses."""
        if not trial.is_glance:
            return True
        if trial.check.clause.level is not Level.MUST:
            return False
        self._diagnosed_count += 1
        return self._diagnosed_count <= self.plan.diagnosed

    def _make_outcome(self, check: Check, dtype: DType, verdict: Verdict,
                      tally: Tally | None = None, *, reason: str = "",
                      evidence: Evidence | None = None) -> Outcome:
        tally = tally or Tally()
        return Outcome(
            self.subject.id, check.clause.id, dtype, check.clause.level, verdict, reason,
            tally.cases, tally.no_claims, tally.worst, evidence, instrument=check.instrument,
            readings=tuple(tally.readings), met=write_pairs(tally.met_pairs), spans=tally.spans,
            asked=tally.named_sizes, sample=tally.sample, triples=write_pairs(tally.triples))
