"""Puts faults of the catalogue the very calls of a failing case, in the subject's place.

Clauses have their say, too: which keywords a suspected fault needs, and whether it breaks what the
subject holds. The matrix of the spec (`spec/refutations.json`) chooses the clauses. Each is put to
the subject and, in its place, to the suspects, on the same few cases: the matrix alone would speak
of a subject that takes every keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.conventions import of_hidden_rows
from attnspec.core.declaration import Limits
from attnspec.core.forms import CACHE, InputForm
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.diagnosis.tolerance import AnswerRuler, Aspect, ComparisonStandard
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.sound_forms import by_sequence, decode_concatenating, side_by_side
from attnspec.faults.staged import SOUND, Attend, as_computed, computing, find_empty_rows, log_sum_exp, staged
from attnspec.faults.staged_forms import LayerCall, LayerStages, as_layer, output_and_weights, run_layer, with_cache
from attnspec.faults.staged_work import Answer as Returned
from attnspec.faults.staged_work import HandedOver as StagedCall
from attnspec.faults.staged_work import PreparedCall
from attnspec.faults.subject import Noise, noisy
from attnspec.numerics.rotary import INTERLEAVED, ROTARY_PAIRS
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, Recipe
from attnspec.spec.clause import CASES, Refutations
from attnspec.subjects.call import BackwardPass
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Ending, LoggedCall, LoggingEvaluator, Tally, is_poisoned, log_call
from attnspec.trials.trial import Trial
from attnspec.vocabulary.scene import AnyProblem

NOISE_SEEDS = (1, 2)
"""Seeds of the rounding errors that are put into a fault to see how far rounding moves it."""

ANY_KEYWORD = BackwardPass("attend_backward", frozenset(OFF))
"""A fault's backward pass: it takes every keyword, and nothing of the forward pass."""


class FaultCandidate:
    """Puts a fault the calls that a subject was put, in their order, each when it is asked for."""

    def __init__(self, fault: Fault, bar: ComparisonStandard,
                 calls: Sequence[tuple[AnyProblem, str]]) -> None:
        self.fault = fault
        self._bar, self._calls = bar, calls
        self._put: dict[int, tuple[Subject, list[LoggedCall]]] = {}

    def answer_call(self, index: int, *, noise: int = 0) -> LoggedCall:
        """Answers the call with this index, after all before it.

        noise: the seed of the rounding errors that are put in; 0 for none.
        """
        if noise not in self._put:
            # a fault may have a memory: with other roundings it is another one, and is put every call anew
            subject = as_candidate(self.fault, self._bar.subject, self._bar.conventions)
            if noise:
                subject = noisy(subject, Noise(self._bar.precision, noise))
            self._put[noise] = subject, []
        subject, steps = self._put[noise]
        while len(steps) <= index:
            step = log_call(subject, *self._calls[len(steps)])
            # arrays are held only where it counts whether a later call overwrites them
            steps.append(step if self._bar.aspect is Aspect.KEPT else step.without_memory)
        return steps[index]

    @property
    def calls_answered(self) -> int:
        """How many calls were put so far without noise."""
        return len(self._put[0][1]) if 0 in self._put else 0

    @property
    def remembered_count(self) -> int:
        """How many calls are remembered, with and without noise."""
        return sum(len(steps) for _, steps in self._put.values())

    def shake_call(self, index: int) -> Iterator[LoggedCall]:
        """Answers the call with rounding errors put in, once for each seed."""
        return (self.answer_call(index, noise=seed) for seed in NOISE_SEEDS)


def as_candidate(fault: Fault, subject: Subject, conventions: Mapping[str, str]) -> Subject:
    """A fresh copy of the fault in the place of the subject.

    It has the subject's declaration, its variants, its convention of rotary pairs, and its answer
    to a row that sees no key.
    """
    # a fault's function knows no other storage or shape of arrays
    subject = replace(subject, takes_own_layout=False)
    function = fault.function
    other = fault.other_path() if fault.other_path else function
    # a function without the flag pairs neighbours by convention, and a fault must do so too
    if conventions.get(ROTARY_PAIRS) == INTERLEAVED and subject.declaration.kind is Kind.ROTARY:
        function = other = partial(function, interleaved=True)

    def fitted(function: Callable[..., Returned]) -> Callable[..., Returned]:
        return _answer_hidden_rows(_fit_fault_to_subject(fault, subject, function), conventions)

    # a fault of one path shows where the switch is flipped
    variants = {name: replace(variant, callee=InProcess(fitted(other)))
                for name, variant in subject.variants.items()}
    if fault.backward is None or not _may_go_back(subject):
        return replace(subject, callee=InProcess(fitted(function)), variants=variants)
    callee = InProcess(fitted(function), backward=fault.backward())
    return replace(subject, callee=callee, backward=ANY_KEYWORD, variants=variants)


def _answer_hidden_rows(function: Callable[..., Returned],
                        conventions: Mapping[str, str]) -> Callable[..., Returned]:
    """The function, with the conventions' answer in rows that see no key.

    A fault may see keys that the definition hides. How it hides keys stays as wrong as it is.
    """
    answers = {answer for name, answer in conventions.items()
               if name.partition(".")[0] == "hidden_row"}
    if not answers & _HIDING_STAGES.keys():
        return function

    def attend(*inputs: Array, **keywords: Any) -> Returned:  # noqa: ANN401  (Call's)
        """What the function answers to query (B,H,T,D) or (B,T,M), key and value."""
        # conventions may differ by what hides the keys
        present = {name for name, value in keywords.items()
                   if value is not None and value is not False}
        hide = _HIDING_STAGES.get(of_hidden_rows(conventions, present), sound.hide)
        with computing(as_computed(replace(SOUND, hide=hide, lse=_lse_of_seen))):
            return function(*inputs, **keywords)
    return attend


def _level_empty_rows(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden ones -inf; all 0 in rows without a visible key or a sink."""
    return _fill_empty_rows(sound.hide(logits, work), work, 0.0)


def _spoil_empty_rows(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden ones -inf; all NaN in rows without a visible key or a sink."""
    return _fill_empty_rows(sound.hide(logits, work), work, np.nan)


def _lse_of_seen(logits: Array, work: PreparedCall) -> Array:
    """Log-sum-exps (B,H,T) of logits and sinks (B,H,T,S+·), -inf where there are none."""
    return log_sum_exp(_fill_empty_rows(logits, work, -np.inf))


def _fill_empty_rows(logits: Array, work: PreparedCall, value: float) -> Array:
    """Logits (B,H,T,·), with the value in all rows without a visible key or a sink."""
    return np.where(find_empty_rows(work), value, logits).astype(logits.dtype)


_HIDING_STAGES: Mapping[str, Callable[[Array, PreparedCall], Array]] = {
    "uniform": _level_empty_rows, "nan": _spoil_empty_rows}
"""By the answer to `hidden_row`, how keys are hidden; none for the answer that faults have anyway.
"""


def _may_go_back(subject: Subject) -> bool:
    """Whether a fault's backward pass, one of dense attention, can stand in this place."""
    declaration = subject.declaration
    return declaration.kind is Kind.ATTENTION and declaration.form is InputForm.DENSE


def _fit_fault_to_subject(fault: Fault, subject: Subject,
                          function: Callable[..., Returned]) -> Callable[..., Returned]:
    """The fault's function, with the signature and the form of answer of the subject."""
    limits, form = subject.declaration.limits, subject.declaration.form
    # a fault of a form takes its arrays so already
    in_form = function
    if fault.form is InputForm.DENSE and form is not InputForm.DENSE:
        in_form = _FORM_MAKERS[form](partial(_call_function, function))()
    if subject.declaration.kind is not Kind.LAYER:
        return in_form
    if fault.kind is not Kind.ATTENTION:
        return partial(_answer_as_layer, function, limits)
    if form is InputForm.DECODER:
        return partial(_answer_as_step, in_form, limits)
    return partial(_answer_as_layer, as_layer(partial(_answer_in_layer, function)), limits)


def _call_function(function: Callable[..., Returned], call: StagedCall) -> Returned:
    return function(call.query, call.key, call.value, **call.given)


_FORM_MAKERS: Mapping[InputForm, Callable[[Callable[[Any], Returned]],
                                          Callable[[], Callable[..., Returned]]]] = {
    InputForm.PACKED: by_sequence, InputForm.PAGED: side_by_side,
    InputForm.DECODER: decode_concatenating}
"""By form, what makes a dense function take its arrays in this form."""


def _answer_in_layer(function: Attend, call: LayerCall) -> Returned:
    """The answer of a layer around an attention function."""
    def attend(inner: StagedCall, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (the stage's signature)
        """The function's output (B,H,T,Dv) and weights (B,H,T,S), whatever it was asked for."""
        keywords = {**inner.given, "return_weights": True}
        return output_and_weights(function(inner.query, inner.key, inner.value, **keywords))
    return run_layer(call, LayerStages(attend=attend))


def _answer_as_step(decoder: Callable[..., Any], limits: Limits, *inputs: Array, cache: object,
                    **keywords: Any) -> Returned:  # noqa: ANN401  (Call's)
    """The answer of a decoder layer around a decoder: query (B,T,M), key and value to (B,T,M) and
    the next cache.
    """
    next_caches: list[object] = []

    def attend(inner: StagedCall, layer: LayerCall) -> tuple[Array, Array]:  # noqa: ARG001  (the stage's signature)
        """Output (B,H,T,Dv) and weights (B,H,T,S)."""
        inner_keywords = {**inner.given, "return_weights": True, CACHE: cache}
        *answer, next_cache = decoder(inner.query, inner.key, inner.value, **inner_keywords)
        next_caches.append(next_cache)
        return output_and_weights(tuple(answer))

    layer = as_layer(partial(run_layer, stages=LayerStages(attend=attend)))
    answer = _answer_as_layer(layer, limits, *inputs, **keywords)
    return with_cache(answer, next_caches[0])  # type: ignore[no-any-return]  # a cache is among it


def _answer_as_layer(layer: Callable[..., Returned], limits: Limits, query: Array, key: Array,
                     value: Array, *,
                     params: Mapping[str, Array], heads: int, **keywords: object) -> Returned:
    """A layer's answer: (B,T,M), or with weights (B,H,T,S) or, averaged, (B,T,S).

    An output projection that the subject does not have is the identity.
    """
    answer = layer(query, key, value, params=_add_output_projection(params), heads=heads,
                   **keywords)
    if limits.weights == "averaged" and isinstance(answer, tuple) and answer[1].ndim == 4:
        return answer[0], answer[1].mean(axis=1)
    return answer


def _add_output_projection(params: Mapping[str, Array]) -> Mapping[str, Array]:
    """The parameters; a missing w_out (H·Dv,M) is the identity."""
    if "w_out" in params:
        return params
    # w_value has a head for each key/value head, w_out takes one for each query head
    groups = params["w_query"].shape[1] // params["w_key"].shape[1]
    width = params["w_value"].shape[1] * groups
    return {**params, "w_out": np.eye(width, dtype=params["w_value"].dtype)}


# A failing case as others can be put it: every call of it, and what the answers are held to


NO_MISTAKE = Fault("no_mistake", Stage.STATE, "Nothing is wrong.", "never", staged())
"""Attention as it is defined, to stand in the place of a fault."""

MOST_SCORES_OF_SMALL = 2**15
"""Scores (B·H·T·S) of a failing case beyond which the panel has to bear a fault out first."""


def judge_case(trial: Trial, evaluator: Evaluator, recipe: Recipe) -> Tally:
    """Judges one case of the trial's clause with another evaluator."""
    return replace(trial, evaluator=evaluator, breadcrumb=lambda _: None).judge_recipe(recipe)


@dataclass(frozen=True, slots=True, eq=False)
class FailingCase:
    """A failing case, with every call that was put to the subject while it was judged.

    fails: whether it failed again.  held_recipes: the case at sizes at which the subject holds.
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
        return sum(size.B * size.H * size.T * size.S for size in sizes) > MOST_SCORES_OF_SMALL

    @property
    def is_defined(self) -> bool:
        """Whether all its calls have a right answer: some clauses pose calls that have none."""
        return all(isinstance(step.problem, RotaryProblem)
                   or step.problem.key.shape[-2] == step.problem.value.shape[-2]
                   for step in self.log)

    @property
    def raises(self) -> bool:
        """Whether the subject raised an exception in it."""
        return any(step.ending is Ending.RAISED for step in self.log)

    @property
    def is_poisoned(self) -> bool:
        """Whether the case is about entries that are not finite."""
        return any(is_poisoned(step.problem) for step in self.log)

    def is_explained_by(self, fault: Fault) -> bool:
        """Whether the fault answers the same calls as the subject did, and fails as well.

        Attention without a mistake must not do so. It is computed once for each fault.
        """
        if fault.name not in self._explained_by_fault:
            self._explained_by_fault[fault.name] = (self._answers_alike(fault)
                                                    and not self._is_explained_without_mistake)
        return self._explained_by_fault[fault.name]

    @property
    def _is_explained_without_mistake(self) -> bool:
        """Whether attention without a mistake would be named as well, but for rows that see no
        key.

        Such a row has no definition, so that answers are not compared there.
        """
        if self.bar.subject.declaration.kind is Kind.ROTARY:
            return False
        if NO_MISTAKE.name not in self._explained_by_fault:
            self._explained_by_fault[NO_MISTAKE.name] = self._answers_alike(NO_MISTAKE)
        return self._explained_by_fault[NO_MISTAKE.name]

    def _answers_alike(self, fault: Fault) -> bool:
        candidate = self._fault_candidate(fault)
        if not all(self._is_alike(candidate, index) for index in range(len(self.log))):
            return False
        if self.bar.aspect is Aspect.KEPT and not self._keeps_alike(candidate):
            return False
        return self._fails_before(self._in_its_place(fault), self.recipe)

    def fault_nearness(self, fault: Fault) -> float:
        """How near the fault's answers are to the subject's, in the call where they are furthest.

        Below 1 they are nearer than the truth is. No call is put after one with 1 or more.
        """
        candidate, furthest = self._fault_candidate(fault), 0.0
        for index, step in enumerate(self.log):
            # the call where they differ most decides: who is right once may be far off later
            nearness = self._ruler(index).call_nearness(step, candidate.answer_call(index))
            furthest = max(furthest, nearness)
            # further than the truth: no later call can make it the nearest
            if furthest >= 1:
                break
        return furthest

    def _fault_candidate(self, fault: Fault) -> FaultCandidate:
        if fault.name not in self._candidates:
            calls = [(step.problem, step.variant) for step in self.log]
            self._candidates[fault.name] = FaultCandidate(fault, self._choose_bar(fault), calls)
        return self._candidates[fault.name]

    def _is_alike(self, candidate: FaultCandidate, index: int) -> bool:
        return self._ruler(index).are_alike(self.log[index], candidate.answer_call(index),
                                            partial(candidate.shake_call, index))

    def _keeps_alike(self, candidate: FaultCandidate) -> bool:
        """Whether both keep their answers, or both do not; asked when all calls are made."""
        return all(step.is_kept is candidate.answer_call(index).is_kept
                   for index, step in enumerate(self.log))

    def is_too_wide(self, fault: Fault) -> bool:
        """Whether the fault, after the failing case, fails at sizes where the subject holds.

        A fault with a memory may fail at other calls than the subject does: it is too wide if it
        fails at all of these sizes. Asked of a case with some `held_recipes`, and computed once
        for each fault.
        """
        if fault.name not in self._too_wide:
            candidate = self._in_its_place(fault)
            # put first for its memory's sake; what comes of it is known
            self._fails_before(candidate, self.recipe)
            verdicts = (self._fails_before(candidate, recipe) for recipe in self.held_recipes)
            has_memory = fault.stage is Stage.STATE
            self._too_wide[fault.name] = all(verdicts) if has_memory else any(verdicts)
        return self._too_wide[fault.name]

    def _in_its_place(self, fault: Fault) -> Evaluator:
        candidate = as_candidate(fault, self.bar.subject, self._choose_bar(fault).conventions)
        return LoggingEvaluator(candidate, self.trial.evaluator, [])

    def _choose_bar(self, fault: Fault) -> ComparisonStandard:
        """The standard for a fault. Without a mistake, rows that see no key are zeros."""
        if fault is not NO_MISTAKE:
            return self.bar
        others = {name: answer for name, answer in self.bar.conventions.items()
                  if name.partition(".")[0] != "hidden_row"}
        return replace(self.bar, conventions=others)

    def _fails_before(self, candidate: Evaluator, recipe: Recipe) -> bool:
        return judge_case(self.trial, candidate, recipe).failure is not None

    def _ruler(self, index: int) -> AnswerRuler:
        """The ruler for one call. Whether answers are kept is compared after all calls."""
        if index not in self._rulers:
            bar = self.bar
            if bar.aspect is Aspect.KEPT:
                bar = replace(bar, aspect=Aspect.NONE)
            self._rulers[index] = bar.ruler(self.log[index].problem)
        return self._rulers[index]


# What clauses have to say of a fault that is suspected


MOST_ASKED_CLAUSES = 4
"""The suspects of one failure are put to at most so many clauses."""

CLAUSE_PURSE = 1e8
"""Upper limit of what the cases of one clause cost, in multiply-adds."""

_NEVER_NEEDED = (frozenset(name for name, word in KEYWORDS.items()
                           if word.acts in (Acts.ANSWER, Acts.LAYER)) | {"scale"})
"""Keywords that no fault needs: without them, too, there are weights, parameters and a scale."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The clauses of a spec by id, and the faults that each convicts; loaded when needed."""

    checks: Callable[[], Mapping[str, Check]] = dict
    refutations: Callable[[], Refutations] = Refutations
    _needs: dict[str, frozenset[str]] = field(default_factory=dict)

    def needed_keywords(self, fault: Fault) -> frozenset[str]:
        """The keywords without which a fault does not show.

        They are those that every clause needs that convicts it, and the keyword that it gets
        wrong, if all of these clauses may draw that one.
        """
        name = _catalogue_name(fault)
        if name not in self._needs:
            # a fault's stage is a keyword where it gets that keyword wrong
            own = {fault.stage} & KEYWORDS.keys()
            checks, needs_of_clauses = self.checks(), list[frozenset[str]]()
            for clause in self.refutations().of_fault(name):
                check = checks.get(clause)
                # a clause that puts every keyword beside every other says of none that it is needed
                if check and check.domain.kind != "features":
                    own_here = own & (check.needs | check.domain.sometimes)
                    needs_of_clauses.append(check.needs - _NEVER_NEEDED | own_here)
            shared = frozenset.intersection(*needs_of_clauses) if needs_of_clauses else frozenset()
            self._needs[name] = shared
        return self._needs[name]

    def measure_remoteness(self, fault: Fault, check: Check,
                           keywords: frozenset[str]) -> tuple[int, int]:
        """How far a fault is from what a clause is about; the smaller pair is nearer.

        First come the faults that the clause names as examples, then those that it convicts; a
        clause that puts every keyword beside every other is about all of them. Of these, faults
        that need most of the keywords of the case come first: it was shrunk, and has none that it
        does not need.
        """
        name, clause = _catalogue_name(fault), check.clause
        spare_keywords = len(keywords - _NEVER_NEEDED - self.needed_keywords(fault))
        if check.domain.kind == "features" or name in clause.refuted_by:
            return 0, spare_keywords
        if name in self.refutations().convictions.get(clause.id, {}):
            return 1, spare_keywords
        return 2, spare_keywords

    def may_convict(self, clause: str, fault: Fault) -> bool:
        """Whether the clause convicts the fault at some dtype on its first cases.

        True for a clause that the refutations do not have.
        """
        convicted = self.refutations().convictions.get(clause)
        return convicted is None or _catalogue_name(fault) in convicted


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What the clauses have to say about one subject.  seed: of the run."""

    matrix: Matrix = field(default_factory=Matrix)
    seed: int = 0
    _subject_tallies: dict[tuple[str, DType], Tally] = field(default_factory=dict)

    def keep_consistent(self, suspects: Sequence[Fault], trial: Trial,
                        subject: Subject) -> Mapping[str, int]:
        """Finds the suspects that break no clause which the subject holds.

        Returns for each, by name, how many clauses the subject violates and the suspect does not.
        """
        unbroken_clauses = {fault.name: 0 for fault in suspects}
        for check in self._telling_clauses(suspects, trial):
            tally = self._try_subject(check, trial, subject)
            # it was not put: nothing is known of the subject under it
            if not tally.cases:
                continue
            for fault in suspects:
                if fault.name not in unbroken_clauses:
                    continue
                candidate = as_candidate(fault, subject, trial.evaluator.conventions)
                # the very cases that the subject was put, so that chance decides nothing
                breaks = self._try_first_cases(check, trial, candidate).failure is not None
                # who has this fault would violate a clause that the subject holds
                if breaks and tally.failure is None:
                    del unbroken_clauses[fault.name]
                elif not breaks and tally.failure is not None:
                    unbroken_clauses[fault.name] += 1
        return unbroken_clauses

    def _telling_clauses(self, suspects: Sequence[Fault], trial: Trial) -> Iterator[Check]:
        """The clauses for the subject that convict some of the suspects, most telling first."""
        dtype, checks = trial.evaluator.dtype, self.matrix.checks()
        convictions = dict[str, frozenset[str]]()
        for clause, faults in self.matrix.refutations().convictions.items():
            names = frozenset(fault.name for fault in suspects
                              if dtype in faults.get(_catalogue_name(fault), ()))
            # a clause that breaks for all of them tells none from another
            is_telling = names and (len(names) < len(suspects) or len(suspects) == 1)
            if (is_telling and clause in checks and clause != trial.check.clause.id
                    and not checks[clause].why_not_put(trial.evaluator.subject)):
                convictions[clause] = names
        # as in twenty questions: what half of the suspects break tells most
        ranking = sorted(convictions,
                         key=lambda clause: abs(2 * len(convictions[clause]) - len(suspects)))
        # two clauses that break for the same suspects tell the same
        each_once = {convictions[clause]: clause for clause in reversed(ranking)}.values()
        in_turn = sorted(ranking, key=lambda clause: clause not in each_once)
        yield from (checks[clause] for clause in in_turn[:MOST_ASKED_CLAUSES])

    def _try_subject(self, check: Check, trial: Trial, subject: Subject) -> Tally:
        # a clause fares alike before every suspect, so that it is put once
        place = check.clause.id, trial.evaluator.dtype
        if place not in self._subject_tallies:
            self._subject_tallies[place] = self._try_first_cases(check, trial, subject)
        return self._subject_tallies[place]

    def _try_first_cases(self, check: Check, trial: Trial, subject: Subject) -> Tally:
        """Judges a subject on the clause's first cases."""
        model = trial.evaluator
        evaluator = Evaluator(subject, model.dtype, model.conventions, archive=model.archive)
        return Trial(check, evaluator, Effort.QUICK, seed_of(self.seed, check.domain),
                     lambda _: None, shrinks=False, cases=CASES, max_work=CLAUSE_PURSE).hold()


def _catalogue_name(fault: Fault) -> str:
    """The fault's name in the catalogue, without the size of its blocks."""
    return fault.name.partition("@")[0]
