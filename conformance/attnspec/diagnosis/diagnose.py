"""Finds the faults of the catalogue that explain a violation: they are put the calls that the
subject failed on.

Those that explain the case are compared with the subject on the panel, a fixed set of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from attnspec.core.forms import InputForm
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Kind
from attnspec.diagnosis.candidate import FailingCase, Witnesses, judge_case
from attnspec.diagnosis.inputs import PANELS, DiagnosticInputs, locate_in_rotation
from attnspec.diagnosis.locate import BACKWARD_IS_WRONG, NOTHING_SHOWS, WITHOUT_MAXIMUM, RawExponentials, locate_stage
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard, compared_aspect
from attnspec.diagnosis.whereabouts import NOWHERE, FailurePlace
from attnspec.faults.catalogue import ALL, CATALOGUE
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.size_family import axes_of
from attnspec.faults.softmax import OF_OTHER_SIZES, SIZE, of_size
from attnspec.numerics.precision import with_range_of_float32
from attnspec.problems.problem import Recipe
from attnspec.record.boundaries import suggest_blocks
from attnspec.record.outcome import Likeness
from attnspec.subjects.subject import Subject
from attnspec.trials.judging import Ending, LoggedCall, LoggingEvaluator, Violated
from attnspec.trials.trial import Trial
from attnspec.vocabulary.relations import does_not_overflow

BOTH_WRONG = 2

MOST_CONTRADICTIONS = 4
"""A fault that is contradicted more often than that, and more often than not, is put no further
calls.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FaultMatch:
    """How well a fault matches the subject: on the calls where either is wrong, how often they
    agree.

    unbroken_clauses: how many clauses that were asked about it, and that the subject violates, it
    leaves whole.
    """

    fault: Fault
    agreed_calls: int
    tried_calls: int
    unbroken_clauses: int = 0

    @property
    def missed_calls(self) -> int:
        """How often the fault and the subject disagree."""
        return self.tried_calls - self.agreed_calls

    @property
    def likeness(self) -> Likeness:
        """The match as the record has it."""
        fault, name = self.fault, self.fault.name.partition("@")[0]
        return Likeness(name, fault.stage, fault.story, fault.link, self.agreed_calls,
                        self.tried_calls)


@dataclass(frozen=True, slots=True, eq=False)
class PanelResult:
    """What came of putting the panel to a subject: its calls, and whether each is right."""

    bar: ComparisonStandard
    panel: DiagnosticInputs
    steps: tuple[LoggedCall, ...]
    right: tuple[bool, ...]

    @classmethod
    def put_panel(cls, bar: ComparisonStandard, dtype: DType) -> PanelResult:
        """Put the panel to the subject of a bar."""
        panel = PANELS.panel(bar, dtype)
        steps = panel.put_to(bar.subject)
        return cls(bar, panel, steps, tuple(each.is_right_call(step, is_subject=True)
                                            for each, step in zip(panel.rulers, steps,
                                                                  strict=True)))

    def compare_with_fault(self, fault: Fault, case: FailingCase) -> FaultMatch:
        """Compares the subject with a fault on the panel, where either of them is wrong, and on
        the failing case.
        """
        # the failing case itself is one agreement: the fault explains it
        agreed, tried = int(case.fails), int(case.fails)
        for is_agreed in self._compare_call_by_call(fault, case, len(self.steps)):
            agreed, tried = agreed + is_agreed, tried + 1
            # the panel is dear, and such a fault is no longer in question
            if tried - agreed > max(agreed, MOST_CONTRADICTIONS):
                break
        return FaultMatch(fault, agreed, tried)

    def bears_out(self, fault: Fault, case: FailingCase, *, of_old: bool = False) -> bool:
        """Whether no call of the panel speaks against the fault; it is put no further than the
        first that does.

        of_old: only calls count that it was put before.
        """
        return all(self._compare_call_by_call(fault, case,
                                              self.panel.candidate(fault).calls_answered if of_old
                                              else len(self.steps)))

    def _compare_call_by_call(self, fault: Fault, case: FailingCase, calls: int) -> Iterator[bool]:
        """Whether fault and subject agree, call by call.

        Where the subject raises, it may not be meant to answer; that NaN leaks is another matter
        than most mistakes.
        """
        candidate = self.panel.candidate(fault)
        if case.bar.aspect is Aspect.KEPT and self.steps:
            # whether answers are kept shows when all calls are made
            candidate.answer_call(len(self.steps) - 1)
        for index in range(calls):
            held_to = self.panel.rulers[index]
            seen = self.steps[index]
            is_right = self.right[index]
            step = candidate.answer_call(index)
            poisoned = self.panel.poisoned[index] and not case.is_poisoned
            if poisoned or (seen.ending is Ending.RAISED and not case.raises):
                continue
            wrong = (not is_right) + (not self.panel.is_fault_right(fault, index))
            if wrong == BOTH_WRONG:
                yield held_to.are_alike(seen, step, partial(candidate.shake_call, index))
            # one is right and one wrong: they disagree, unless both lie at the edge of what is
            # allowed
            elif wrong and not held_to.are_close(seen, step):
                yield False


MAX_ROUNDS = 8
"""How often the failing case is put to a subject made anew until it fails again: some fail at
every seventh call.
"""

MAX_NEAREST_FAULTS = 12
"""How many faults are put to the panel where none explains the failing case within rounding."""

MAX_NAMED_FAULTS = 12
"""At most so many faults are named: of those that explain one case, the other failures leave few."""

MOST_SUGGESTED_BLOCKS = 5
"""With blocks of so many of the sizes that a boundary suggests are the faults of blocks tried."""


RAISES_ALWAYS = "every call raises "
"""How it is told that a subject answers nothing."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """likely_faults: the faults that explain the violation, likeliest first.  located_stage: where
    read-outs find it, if none does.
    """

    likely_faults: tuple[Likeness, ...] = ()
    located_stage: str = ""


@dataclass(slots=True)
class Examiner:
    """Diagnoses one subject, and remembers how it fared on the panel."""

    make_subject: Callable[[], Subject] | None = None
    witnesses: Witnesses = field(default_factory=Witnesses)
    _panel_results: dict[tuple[DType, Aspect], PanelResult] = field(default_factory=dict)
    _known_matches: dict[str, FaultMatch] = field(default_factory=dict)
    _raw: dict[DType, RawExponentials | None] = field(default_factory=dict)
    _located_cases: dict[tuple[DType, str], FailingCase] = field(default_factory=dict)
    _latest: dict[tuple[str, DType, str], FailingCase] = field(default_factory=dict)

    def is_known_fault(self, trial: Trial, failing: Recipe) -> bool:
        """Whether a fault that another case was like is what this one shows, too."""
        return (bool(self._known_matches)
                and bool(self._match_known_faults(self._logged_case(trial, failing))))

    def diagnose(self, trial: Trial, failing: Recipe, *, among: Sequence[Fault] = ALL,
                 place: FailurePlace = NOWHERE) -> Diagnosis:
        """The faults that explain why a case fails; where none does, what read-outs say.

        place: at which sizes it fails, and at which not, if that is known.
        """
        case = replace(self._logged_case(trial, failing), held_recipes=place.held_recipes)
        # where it is diagnosed once more, the subject may have been made anew
        self._latest.clear()
        if place.held_recipes:
            self._located_cases.setdefault((trial.evaluator.dtype, place.begins), case)
        if not case.is_defined:
            return Diagnosis()
        if always := self._constant_exception(case):
            return Diagnosis(located_stage=always)
        # most subjects have one mistake, so that what explained another case comes first
        like = (self._match_known_faults(case) or self._match_missing_maximum(case, among)
                or self._match_catalogue(case, among, place.begins))
        self._known_matches.update({each.fault.name: each for each in like})
        problems = [step.problem for step in case.log]
        if like or case.bar.aspect is Aspect.DTYPE:  # read-outs cannot show a dtype
            return Diagnosis(tuple({each.likeness.fault: each.likeness
                                    for each in reversed(like)}.values())[::-1])
        if case.bar.subject.declaration.kind is Kind.ROTARY:
            return Diagnosis(located_stage=locate_in_rotation(case.bar, problems))
        # no fault of the catalogue: the stage is read off
        located = locate_stage(case.bar, trial.evaluator.dtype, problems)
        is_backward = located == NOTHING_SHOWS and GRAD in failing.features
        return Diagnosis(located_stage=BACKWARD_IS_WRONG if is_backward else located)

    def _constant_exception(self, case: FailingCase) -> str:
        """That the subject raises on every call that it is put, with the exception; no fault
        answers nothing at all.
        """
        if not case.raises:
            return ""
        steps = self._panel_result(case).steps
        raises = bool(steps) and all(step.ending is Ending.RAISED for step in steps)
        return f"{RAISES_ALWAYS}{steps[0].exception_text}" if raises else ""

    def _match_known_faults(self, case: FailingCase) -> tuple[FaultMatch, ...]:
        """What another clause's case was like, if this one is like it too: most subjects have one
        mistake.
        """
        return self._sort_matches([each for each in self._known_matches.values()
                               if case.fails and self._is_in_use(each.fault, case)
                               and case.is_explained_by(each.fault)
                               and not self._is_too_wide(each.fault, case)], case)

    def _match_missing_maximum(self, case: FailingCase,
                               among: Sequence[Fault]) -> tuple[FaultMatch, ...]:
        """That no maximum is subtracted, where that is all that is wrong: no fault overflows in
        every arithmetic.
        """
        dtype, fault = case.trial.evaluator.dtype, CATALOGUE[WITHOUT_MAXIMUM]
        if not case.fails or fault not in among or not _may_stand(fault, case.trial):
            return ()
        if dtype not in self._raw:
            self._raw[dtype] = RawExponentials.measure_subject(case.bar, dtype)
        raw = self._raw[dtype]
        calls = raw.wrong_calls(case.log) if raw else 0
        return (FaultMatch(fault, calls, calls),) if calls else ()

    def _match_catalogue(self, case: FailingCase, among: Sequence[Fault],
                         begins: str) -> tuple[FaultMatch, ...]:
        """Those that the panel does not contradict come first: their answers to it are remembered."""
        candidates = [fault for fault in among if _may_stand(fault, case.trial)
                      and self._fault_shows_here(fault, case)
                      and self._may_show(fault, case)]
        # it shows when the whole panel has been put, which is dear
        is_late = case.bar.aspect is Aspect.KEPT
        # a boundary in sizes says where blocks end
        resized = [fault for fault in _block_faults(begins) if among is ALL
                   and _may_stand(fault, case.trial)]
        likely = list[Fault]()
        if case.fails and not is_late:
            likely = [fault for fault in (*candidates, *resized) if self._is_likely(fault, case)]
        if likely and (found := self._rank_on_panel(likely, case)):
            return found
        if case.is_large:  # the panel alone, where the case is dear
            return self._rank_on_panel(candidates, replace(case, fails=False))
        explaining = [fault for fault in candidates if case.fails and case.is_explained_by(fault)]
        return (self._rank_on_panel(explaining, case)
                or self._rank_on_panel(_next_candidates(case, candidates),
                                       replace(case, fails=False)))

    def _fault_shows_here(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the sizes and keywords of the case are such as the fault shows at; most show at
        any sizes.
        """
        return self._is_in_use(fault, case) and (fault.planted is None or any(
            fault.planted.bites(axes_of(step.problem.sizes), step.problem.keywords)
            for step in case.log))

    def _may_show(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the clause may see the fault: what returns another dtype does so in the first of
        its calls.
        """
        clause = case.trial.check.clause.id
        return (case.bar.aspect is not Aspect.DTYPE
                or self.witnesses.matrix.may_convict(clause, fault))

    def _is_in_use(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the subject takes what the fault needs, and some call of the case uses it."""
        used = case.recipe.features.union(*(step.problem.keywords for step in case.log))
        return self.witnesses.matrix.needed_keywords(fault) <= used

    def _is_likely(self, fault: Fault, case: FailingCase) -> bool:
        """Whether a fault explains the case and no call of the panel speaks against it; what is
        cheap is asked first.

        A fault is put the whole panel only if it explains the case; but answers that are there
        already cost nothing, and before a large case the panel is the cheaper of the two.
        """
        faring = self._panel_result(case)
        if not faring.bears_out(fault, case, of_old=not case.is_large):
            return False
        return case.is_explained_by(fault) and (case.is_large or faring.bears_out(fault, case))

    def _rank_on_panel(self, faults: Sequence[Fault], case: FailingCase) -> tuple[FaultMatch, ...]:
        """Those that the panel contradicts least: they must agree more often than not.

        Of these, none that fails at sizes at which the subject holds, and none that breaks a
        clause which it holds.
        """
        faring = self._panel_result(case)
        tried = [faring.compare_with_fault(fault, case) for fault in faults]
        least = min((each.missed_calls for each in tried), default=0)
        best = {each.fault.name: each for each in tried if each.missed_calls == least
                and 2 * each.agreed_calls > each.tried_calls
                and not self._is_too_wide(each.fault, case)}
        # clauses tell apart what the panel does not: they put more kinds of calls
        left = self.witnesses.keep_consistent([each.fault for each in best.values()], case.trial,
                                              self._fresh_subject(case.trial))
        matches = [replace(best[name], unbroken_clauses=unbroken)
                   for name, unbroken in left.items()]
        return self._sort_matches(matches, case)[:MAX_NAMED_FAULTS]

    def _sort_matches(self, matches: Sequence[FaultMatch],
                      case: FailingCase) -> tuple[FaultMatch, ...]:
        """The likeliest first: what breaks all that the subject violates, agrees most often, is of
        the subject's kind, and is nearest to what the failing clause is about.
        """
        declared, matrix = case.bar.subject.declaration, self.witnesses.matrix
        # in every case, needed or not
        forced = frozenset({"causal"} if declared.limits.causal_only else ())
        return tuple(sorted(matches, key=lambda each: (
            each.unbroken_clauses, -each.agreed_calls, each.fault.kind is not declared.kind,
            matrix.measure_remoteness(each.fault, case.trial.check,
                                      case.recipe.features - forced))))

    def _is_too_wide(self, fault: Fault, case: FailingCase) -> bool:
        """Whether it fails at sizes at which the subject holds, be it under another clause: then
        it is another.
        """
        return any(known.is_too_wide(fault) for (dtype, _), known in self._located_cases.items()
                   if dtype is case.trial.evaluator.dtype)

    def _logged_case(self, trial: Trial, failing: Recipe) -> FailingCase:
        """The case with its calls; it is put once for all that is asked of it until it is
        diagnosed.
        """
        key = trial.check.clause.id, trial.evaluator.dtype, failing.text
        if key not in self._latest:
            case = self._log_case(trial, failing)
            self._latest.clear()
            self._latest[key] = case
        return self._latest[key]

    def _log_case(self, trial: Trial, failing: Recipe) -> FailingCase:
        subject, log = self._fresh_subject(trial), list[LoggedCall]()
        # some fail at every seventh call only
        for _ in range(MAX_ROUNDS):
            tally = judge_case(trial, LoggingEvaluator(subject, trial.evaluator, log), failing)
            if tally.failure is not None:
                break
        failure = tally.failure
        relation = failure.measured.relation if isinstance(failure, Violated) else ""
        precision = trial.evaluator.precision
        # under the declared class nothing is claimed of what overflows it
        if relation == does_not_overflow.__name__:
            precision = with_range_of_float32(precision)
        bar = ComparisonStandard(subject, precision, trial.evaluator.conventions,
                                 compared_aspect(relation))
        return FailingCase(trial, failing, bar, tuple(log), fails=failure is not None)

    def _fresh_subject(self, trial: Trial) -> Subject:
        return self.make_subject() if self.make_subject else trial.evaluator.subject

    def _panel_result(self, case: FailingCase) -> PanelResult:
        place = case.trial.evaluator.dtype, case.bar.aspect
        if place not in self._panel_results:
            # made anew where it can be: what a failing case left in its memory must not answer these calls
            # and held to its own class: nothing in the panel overflows
            bar = replace(case.bar, subject=self._fresh_subject(case.trial),
                          precision=case.trial.evaluator.precision)
            self._panel_results[place] = PanelResult.put_panel(bar, case.trial.evaluator.dtype)
        return self._panel_results[place]


_FAULT_KINDS: Mapping[Kind, frozenset[Kind]] = {
    Kind.ATTENTION: frozenset({Kind.ATTENTION}),
    Kind.LAYER: frozenset({Kind.ATTENTION, Kind.LAYER}),
    Kind.ROTARY: frozenset({Kind.ROTARY})}
"""By a subject's kind, the kinds of faults that can stand in its place: a layer may be put around
an attention.
"""


def _may_stand(fault: Fault, trial: Trial) -> bool:
    """Whether a fault can be told from rounding here, and is of a kind and a form that can be put
    the same problems.
    """
    declared = trial.evaluator.subject.declaration
    is_fit = (fault.kind in _FAULT_KINDS[declared.kind]
              and fault.form in {InputForm.DENSE, declared.form})
    return is_fit and trial.evaluator.dtype not in fault.equivalents


def _block_faults(begins: str) -> Iterator[Fault]:
    """The faults of rescaling with common blocks, and all faults of blocks with those that a
    boundary suggests.
    """
    yield from OF_OTHER_SIZES
    known = {fault.name for fault in OF_OTHER_SIZES}
    suggested = [size for size in suggest_blocks(begins) if size != SIZE][:MOST_SUGGESTED_BLOCKS]
    yield from (fault for size in suggested for fault in of_size(size) if fault.name not in known)


def _next_candidates(case: FailingCase, candidates: Sequence[Fault]) -> list[Fault]:
    """For the panel alone to judge: the faults nearest to the subject on the failing case, though
    not within rounding, and those with a memory, which the case alone may not bring out again.
    """
    nearest = list[int]()
    if case.fails:
        near = [(case.fault_nearness(fault), index) for index, fault in enumerate(candidates)]
        nearest = [index for ratio, index in sorted(near) if ratio < 1][:MAX_NEAREST_FAULTS]
    # the failing case alone may not bring out again what an earlier call left behind
    remembering = [index for index, fault in enumerate(candidates) if fault.stage is Stage.STATE]
    return [candidates[index] for index in dict.fromkeys([*nearest, *remembering])]
