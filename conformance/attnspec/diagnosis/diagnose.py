"""Finds the faults of the catalogue that explain a violation: they are put the calls that the
subject failed on.

Faults that explain the case are then compared with the subject on the panel, a fixed set of calls.
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

MOST_CONTRADICTIONS = 4
"""A fault that disagrees more often, and mostly disagrees, is put no further calls."""


@dataclass(frozen=True, slots=True, eq=False)
class FaultMatch:
    """How well a fault matches the subject: how often they agree, on the calls where either is
    wrong.

    unbroken_clauses: how many of the clauses that were asked about it the subject violates and the
    fault does not.
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
    """The panel's calls as one subject answered them, and whether each answer is right."""

    bar: ComparisonStandard
    panel: DiagnosticInputs
    steps: tuple[LoggedCall, ...]
    right: tuple[bool, ...]

    @classmethod
    def put_panel(cls, bar: ComparisonStandard, dtype: DType) -> PanelResult:
        """Puts the panel to the subject of a standard."""
        panel = PANELS.panel(bar, dtype)
        steps = panel.put_to(bar.subject)
        verdicts = (ruler.is_right_call(step, is_subject=True)
                    for ruler, step in zip(panel.rulers, steps, strict=True))
        return cls(bar, panel, steps, tuple(verdicts))

    def compare_with_fault(self, fault: Fault, case: FailingCase) -> FaultMatch:
        """Counts how often subject and fault agree, on the panel where either is wrong."""
        # the failing case itself is one agreement: the fault explains it
        agreements, calls = int(case.fails), int(case.fails)
        for agrees in self._compare_call_by_call(fault, case, len(self.steps)):
            agreements, calls = agreements + agrees, calls + 1
            # the panel is dear, and such a fault is no longer in question
            if calls - agreements > max(agreements, MOST_CONTRADICTIONS):
                break
        return FaultMatch(fault, agreements, calls)

    def bears_out(self, fault: Fault, case: FailingCase, *, only_answered: bool = False) -> bool:
        """Whether no call of the panel speaks against the fault; the first that does ends it.

        only_answered: only calls count that the fault was put before.
        """
        calls = self.panel.candidate(fault).calls_answered if only_answered else len(self.steps)
        return all(self._compare_call_by_call(fault, case, calls))

    def _compare_call_by_call(self, fault: Fault, case: FailingCase, calls: int) -> Iterator[bool]:
        """Whether fault and subject agree, call by call.

        Calls are left out where the subject raises, since it may not be meant to answer, and where
        NaN is put in, since that it leaks is another matter than most mistakes.
        """
        candidate = self.panel.candidate(fault)
        if case.bar.aspect is Aspect.KEPT and self.steps:
            # whether answers are kept shows when all calls are made
            candidate.answer_call(len(self.steps) - 1)
        for index in range(calls):
            ruler = self.panel.rulers[index]
            answer = self.steps[index]
            is_right = self.right[index]
            step = candidate.answer_call(index)
            is_only_poisoned = self.panel.poisoned[index] and not case.is_poisoned
            if is_only_poisoned or (answer.ending is Ending.RAISED and not case.raises):
                continue
            is_fault_right = self.panel.is_fault_right(fault, index)
            if not is_right and not is_fault_right:
                yield ruler.are_alike(answer, step, partial(candidate.shake_call, index))
            # one is right and one wrong: they disagree, unless both lie at the edge of the bound
            elif is_right is not is_fault_right and not ruler.are_close(answer, step):
                yield False


MAX_ROUNDS = 8
"""How often a case is put to a fresh subject until it fails again: some fail seldom."""

MAX_NEAREST_FAULTS = 12
"""How many faults are put to the panel where none explains the failing case within rounding."""

MAX_NAMED_FAULTS = 12
"""Upper limit of one diagnosis. Usually few remain once the other failing cases are compared."""

MOST_SUGGESTED_BLOCKS = 5
"""The faults of blocks are tried with so many of the block sizes that a boundary suggests."""


RAISES_ALWAYS = "every call raises "
"""How the sentence begins that a subject answers no call."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What explains a violation.

    likely_faults: the faults that do, likeliest first.  located_stage: if there is none, the
    sentence in which read-outs name a stage.
    """

    likely_faults: tuple[Likeness, ...] = ()
    located_stage: str = ""


@dataclass(slots=True)
class Examiner:
    """Diagnoses one subject, and remembers its answers to the panel.

    make_subject: makes a fresh subject. Without it, faults of memory are not recognised.
    """

    make_subject: Callable[[], Subject] | None = None
    witnesses: Witnesses = field(default_factory=Witnesses)
    _panel_results: dict[tuple[DType, Aspect], PanelResult] = field(default_factory=dict)
    _known_matches: dict[str, FaultMatch] = field(default_factory=dict)
    _raw: dict[DType, RawExponentials | None] = field(default_factory=dict)
    _located_cases: dict[tuple[DType, str], FailingCase] = field(default_factory=dict)
    _latest: dict[tuple[str, DType, str], FailingCase] = field(default_factory=dict)

    def is_known_fault(self, trial: Trial, failing: Recipe) -> bool:
        """Whether a fault that explained another case explains this one, too."""
        return (bool(self._known_matches)
                and bool(self._match_known_faults(self._logged_case(trial, failing))))

    def diagnose(self, trial: Trial, failing: Recipe, *, among: Sequence[Fault] = ALL,
                 place: FailurePlace = NOWHERE) -> Diagnosis:
        """Finds the faults that explain why a case fails; where none does, the stage that reads
        wrong.

        place: at which sizes it fails, and at which it does not, if that is known.
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
        matches = (self._match_known_faults(case) or self._match_missing_maximum(case, among)
                   or self._match_catalogue(case, among, place.begins))
        self._known_matches.update({each.fault.name: each for each in matches})
        problems = [step.problem for step in case.log]
        if matches or case.bar.aspect is Aspect.DTYPE:  # read-outs cannot show a dtype
            # faults that differ by their blocks have one name, and are named once
            by_name = {each.likeness.fault: each.likeness for each in reversed(matches)}
            return Diagnosis(tuple(by_name.values())[::-1])
        if case.bar.subject.declaration.kind is Kind.ROTARY:
            return Diagnosis(located_stage=locate_in_rotation(case.bar, problems))
        # no fault of the catalogue: the stage is read off
        sentence = locate_stage(case.bar, trial.evaluator.dtype, problems)
        if sentence == NOTHING_SHOWS and GRAD in failing.features:
            sentence = BACKWARD_IS_WRONG
        return Diagnosis(located_stage=sentence)

    def _constant_exception(self, case: FailingCase) -> str:
        """That the subject raises on every call of the panel, with the exception; else empty.

        No fault answers nothing at all.
        """
        if not case.raises:
            return ""
        steps = self._panel_result(case).steps
        if steps and all(step.ending is Ending.RAISED for step in steps):
            return f"{RAISES_ALWAYS}{steps[0].exception_text}"
        return ""

    def _match_known_faults(self, case: FailingCase) -> tuple[FaultMatch, ...]:
        """The faults that explained another case and explain this one, too."""
        matches = [each for each in self._known_matches.values()
                   if case.fails and self._is_in_use(each.fault, case)
                   and case.is_explained_by(each.fault)
                   and not self._is_too_wide(each.fault, case)]
        return self._sort_matches(matches, case)

    def _match_missing_maximum(self, case: FailingCase,
                               among: Sequence[Fault]) -> tuple[FaultMatch, ...]:
        """The fault that subtracts no maximum, where nothing else is wrong.

        It is measured, for the fault of the catalogue does not overflow in every arithmetic.
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
        """The faults that explain the case, or come nearest to it on the panel.

        Those that the panel does not contradict come first: their answers to it are remembered.
        """
        candidates = [fault for fault in among if _may_stand(fault, case.trial)
                      and self._fault_shows_here(fault, case)
                      and self._may_show(fault, case)]
        # a boundary in sizes says where blocks end
        resized_faults = [fault for fault in _block_faults(begins) if among is ALL
                          and _may_stand(fault, case.trial)]
        # whether answers are kept shows when the whole panel has been put, which is dear
        if case.fails and case.bar.aspect is not Aspect.KEPT:
            likely = [fault for fault in (*candidates, *resized_faults)
                      if self._is_likely(fault, case)]
            if likely and (matches := self._rank_on_panel(likely, case)):
                return matches
        if case.is_large:  # the panel alone, where the case is dear
            return self._rank_on_panel(candidates, replace(case, fails=False))
        explaining = [fault for fault in candidates if case.fails and case.is_explained_by(fault)]
        return (self._rank_on_panel(explaining, case)
                or self._rank_on_panel(_next_candidates(case, candidates),
                                       replace(case, fails=False)))

    def _fault_shows_here(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the fault shows at the sizes and keywords of the case."""
        if fault.planted is None or not self._is_in_use(fault, case):
            return self._is_in_use(fault, case)
        return any(fault.planted.bites(axes_of(step.problem.sizes), step.problem.keywords)
                   for step in case.log)

    def _may_show(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the clause may see the fault. A wrong dtype shows under any clause."""
        clause = case.trial.check.clause.id
        return (case.bar.aspect is not Aspect.DTYPE
                or self.witnesses.matrix.may_convict(clause, fault))

    def _is_in_use(self, fault: Fault, case: FailingCase) -> bool:
        """Whether some call of the case uses the keywords that the fault needs."""
        used = case.recipe.features.union(*(step.problem.keywords for step in case.log))
        return self.witnesses.matrix.needed_keywords(fault) <= used

    def _is_likely(self, fault: Fault, case: FailingCase) -> bool:
        """Whether a fault explains the case and no call of the panel speaks against it.

        What is cheap is asked first: a fault is put the whole panel only if it explains the case,
        but answers that are there already cost nothing, and a large case is dearer than the panel.
        """
        result = self._panel_result(case)
        if not result.bears_out(fault, case, only_answered=not case.is_large):
            return False
        return case.is_explained_by(fault) and (case.is_large or result.bears_out(fault, case))

    def _rank_on_panel(self, faults: Sequence[Fault], case: FailingCase) -> tuple[FaultMatch, ...]:
        """The faults that the panel contradicts least, and that agree more often than not.

        None of them fails at sizes at which the subject holds, or breaks a clause which it holds.
        """
        result = self._panel_result(case)
        matches = [result.compare_with_fault(fault, case) for fault in faults]
        least = min((each.missed_calls for each in matches), default=0)
        best = {each.fault.name: each for each in matches if each.missed_calls == least
                and 2 * each.agreed_calls > each.tried_calls
                and not self._is_too_wide(each.fault, case)}
        # clauses tell apart what the panel does not: they put more kinds of calls
        suspects, subject = [each.fault for each in best.values()], self._fresh_subject(case.trial)
        consistent = self.witnesses.keep_consistent(suspects, case.trial, subject)
        matches = [replace(best[name], unbroken_clauses=unbroken)
                   for name, unbroken in consistent.items()]
        return self._sort_matches(matches, case)[:MAX_NAMED_FAULTS]

    def _sort_matches(self, matches: Sequence[FaultMatch],
                      case: FailingCase) -> tuple[FaultMatch, ...]:
        """The matches, likeliest first.

        The likeliest breaks all that the subject violates, agrees most often, is of the subject's
        kind, and is nearest to what the failing clause is about.
        """
        declaration, keywords = case.bar.subject.declaration, case.recipe.features
        # the flag is in every case, needed or not
        if declaration.limits.causal_only:
            keywords -= {"causal"}

        def rank(match: FaultMatch) -> tuple[int, int, bool, tuple[int, int]]:
            remoteness = self.witnesses.matrix.measure_remoteness(
                match.fault, case.trial.check, keywords)
            return (match.unbroken_clauses, -match.agreed_calls,
                    match.fault.kind is not declaration.kind, remoteness)

        return tuple(sorted(matches, key=rank))

    def _is_too_wide(self, fault: Fault, case: FailingCase) -> bool:
        """Whether the fault fails at sizes at which the subject holds under any clause."""
        return any(located.is_too_wide(fault)
                   for (dtype, _), located in self._located_cases.items()
                   if dtype is case.trial.evaluator.dtype)

    def _logged_case(self, trial: Trial, failing: Recipe) -> FailingCase:
        """The case with its calls. It is put once for all that is asked before it is diagnosed."""
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
"""By kind of subject, the kinds of faults that can stand in its place; layers wrap attentions."""


def _may_stand(fault: Fault, trial: Trial) -> bool:
    """Whether a fault can be put the same problems, and shows at this dtype."""
    declaration = trial.evaluator.subject.declaration
    return (fault.kind in _FAULT_KINDS[declaration.kind]
            and fault.form in {InputForm.DENSE, declaration.form}
            and trial.evaluator.dtype not in fault.equivalents)


def _block_faults(begins: str) -> Iterator[Fault]:
    """The faults of blocks, with common blocks and with those that a boundary suggests."""
    yield from OF_OTHER_SIZES
    common_names = {fault.name for fault in OF_OTHER_SIZES}
    sizes = [size for size in suggest_blocks(begins) if size != SIZE]
    for size in sizes[:MOST_SUGGESTED_BLOCKS]:
        yield from (fault for fault in of_size(size) if fault.name not in common_names)


def _next_candidates(case: FailingCase, candidates: Sequence[Fault]) -> list[Fault]:
    """The faults that the panel alone has to judge.

    They are the nearest to the subject on the failing case, though not within rounding, and those
    with a memory, which the case may not bring out again.
    """
    nearest = list[int]()
    if case.fails:
        by_nearness = sorted((case.fault_nearness(fault), index)
                             for index, fault in enumerate(candidates))
        nearest = [index for ratio, index in by_nearness if ratio < 1][:MAX_NEAREST_FAULTS]
    # the failing case alone may not bring out again what an earlier call left behind
    with_memory = [index for index, fault in enumerate(candidates) if fault.stage is Stage.STATE]
    return [candidates[index] for index in dict.fromkeys([*nearest, *with_memory])]
