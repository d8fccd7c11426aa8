"""Which faults of the catalogue explain a violation: they are put the very calls that the subject failed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from attnspec.core.nouns import DType, Effort, Kind
from attnspec.diagnosis.failing_case import FailingCase, judged
from attnspec.diagnosis.inputs import DiagnosticInputs, diagnostic_inputs
from attnspec.diagnosis.locate import locate
from attnspec.diagnosis.overflow import WITHOUT_MAXIMUM, RawExponentials
from attnspec.diagnosis.tolerance import Aspect, Bar, aspect_of
from attnspec.faults.blocks import OF_OTHER_SIZES
from attnspec.faults.catalogue import ALL, CATALOGUE
from attnspec.faults.doubles import SoundArithmetic, double
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.planted import axes_of
from attnspec.faults.subject import own_subject
from attnspec.numerics.precision import with_range_of_float32
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Likeness
from attnspec.subjects.subject import Subject
from attnspec.trials.call_log import Ending, LoggedCall, LoggingEvaluator
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator, Violated
from attnspec.trials.trial import Trial
from attnspec.vocabulary.overflow import does_not_overflow

ROUNDS = 8
"""How often the failing case is put to a subject made anew until it fails again: some fail at every seventh call."""

BOTH = 2

NEAREST = 12
"""How many faults are put to the panel where none explains the failing case within rounding."""

PATIENCE = 4
"""A fault that is contradicted more often than that, and more often than not, is put no further calls."""

NAMED = 5
"""At most so many faults are named."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """like: the faults that explain the violation, likeliest first.  located: where read-outs find it, if none does."""

    like: tuple[Likeness, ...] = ()
    located: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """How a fault fared beside the subject: on the calls where either is wrong, how often they agree."""

    fault: Fault
    agreed: int
    tried: int

    @property
    def missed(self) -> int:
        """How often they disagree."""
        return self.tried - self.agreed

    @property
    def likeness(self) -> Likeness:
        """For the record."""
        fault, name = self.fault, self.fault.name.partition("@")[0]
        return Likeness(name, fault.stage.value, fault.story, fault.link, self.agreed, self.tried)


def diagnose(trial: Trial, failing: Recipe, *, among: Sequence[Fault] = ALL,
             again: Callable[[], Subject] | None = None) -> Diagnosis:
    """What a violation is like. `again` makes the subject anew, where it can be: then faults of memory are told too."""
    return Examiner(again).diagnose(trial, failing, among=among)


@dataclass(slots=True)
class Examiner:
    """Diagnoses one subject, and remembers how it fared on the panel."""

    again: Callable[[], Subject] | None = None
    _fares: dict[tuple[DType, Aspect], Faring] = field(default_factory=dict)
    _known: dict[str, Likeness] = field(default_factory=dict)
    _raw: dict[DType, RawExponentials | None] = field(default_factory=dict)

    def diagnose(self, trial: Trial, failing: Recipe, *, among: Sequence[Fault] = ALL) -> Diagnosis:
        """The faults that explain why a case fails; where none does, what read-outs say."""
        case = self._case(trial, failing)
        if not case.is_defined:
            return Diagnosis()
        like = self._named_before(case) or self._overflown(case, among) or self._named_now(case, among)
        self._known.update({each.fault: each for each in like})
        problems = [step.problem for step in case.log]
        is_rotary = case.bar.subject.declaration.kind is Kind.ROTARY
        if like or is_rotary or case.bar.aspect is Aspect.DTYPE:  # read-outs are of attention's numbers
            return Diagnosis(like)
        return Diagnosis(located=locate(case.bar, trial.evaluator.dtype, problems))

    def _named_before(self, case: FailingCase) -> tuple[Likeness, ...]:
        """What another clause's case was like, if this one is like it too: most subjects have one mistake."""
        return tuple(each for name, each in self._known.items() if case.fails and case.explains(CATALOGUE[name]))

    def _overflown(self, case: FailingCase, among: Sequence[Fault]) -> tuple[Likeness, ...]:
        """That no maximum is subtracted, where that is all that is wrong: no fault overflows in every arithmetic."""
        dtype, fault = case.trial.evaluator.dtype, CATALOGUE[WITHOUT_MAXIMUM]
        if not case.fails or fault not in among or not _may_stand(fault, case.trial):
            return ()
        if dtype not in self._raw:
            self._raw[dtype] = RawExponentials.of(case.bar, dtype)
        raw = self._raw[dtype]
        calls = raw.wrong_calls(case.log) if raw else 0
        return (Tried(fault, calls, calls).likeness,) if calls else ()

    def _named_now(self, case: FailingCase, among: Sequence[Fault]) -> tuple[Likeness, ...]:
        """Those that the panel does not contradict come first: their answers to it are remembered."""
        candidates = [fault for fault in among if _may_stand(fault, case.trial) and _bites(fault, case)]
        is_late = case.bar.aspect is Aspect.KEPT  # it shows when the whole panel has been put, which is dear
        resized = [fault for fault in OF_OTHER_SIZES if among is ALL and _may_stand(fault, case.trial)]
        likely = [] if is_late else [fault for fault in (*candidates, *resized)
                                     if case.fails and self._is_likely(fault, case)]
        if likely:
            return self._likeliest(likely, case)
        if case.is_large:  # the panel alone, where the case is dear
            return self._likeliest(candidates, replace(case, fails=False))
        found = [fault for fault in candidates if case.fails and case.explains(fault)]
        return self._likeliest(found, case) or self._likeliest(_next_best(case, candidates), replace(case, fails=False))

    def _is_likely(self, fault: Fault, case: FailingCase) -> bool:
        """Whether a fault explains the case and no call of the panel speaks against it; what is cheap is asked first.

        A fault is put the whole panel only if it explains the case; but answers that are there already cost nothing,
        and before a large case the panel is the cheaper of the two.
        """
        faring = self._faring(case)
        if not faring.bears_out(fault, case, of_old=not case.is_large):
            return False
        return case.explains(fault) and (case.is_large or faring.bears_out(fault, case))

    def _likeliest(self, faults: Sequence[Fault], case: FailingCase) -> tuple[Likeness, ...]:
        """Those that the panel contradicts least: they must agree more often than not. The subject's kind is first."""
        faring, kind = self._faring(case), case.bar.subject.declaration.kind
        tried = [faring.beside(fault, case) for fault in faults]
        ranked = sorted(tried, key=lambda each: (each.missed, -each.agreed, each.fault.kind is not kind))
        best = [each for each in ranked if each.missed == ranked[0].missed and 2 * each.agreed > each.tried]
        return tuple(each.likeness for each in best[:NAMED])

    def _case(self, trial: Trial, failing: Recipe) -> FailingCase:
        subject, log = self._anew(trial), list[LoggedCall]()
        for _ in range(ROUNDS):
            tally = judged(trial, LoggingEvaluator(subject, trial.evaluator, log), failing)
            if tally.failure is not None:
                break
        failure = tally.failure
        relation = failure.measured.relation if isinstance(failure, Violated) else ""
        precision = trial.evaluator.precision
        if relation == does_not_overflow.__name__:  # under the declared class nothing is claimed of what overflows it
            precision = with_range_of_float32(precision)
        bar = Bar(subject, precision, trial.evaluator.conventions, aspect_of(relation))
        return FailingCase(trial, failing, bar, tuple(log), fails=failure is not None)

    def _anew(self, trial: Trial) -> Subject:
        return self.again() if self.again else trial.evaluator.subject

    def _faring(self, case: FailingCase) -> Faring:
        place = case.trial.evaluator.dtype, case.bar.aspect
        if place not in self._fares:
            # made anew where it can be: what a failing case left in its memory must not answer these calls
            # and held to its own class: nothing in the panel overflows
            bar = replace(case.bar, subject=self._anew(case.trial), precision=case.trial.evaluator.precision)
            self._fares[place] = Faring.of(bar, case.trial.evaluator.dtype)
        return self._fares[place]


_ALIKE: Mapping[Kind, frozenset[Kind]] = {
    Kind.ATTENTION: frozenset({Kind.ATTENTION}), Kind.LAYER: frozenset({Kind.ATTENTION, Kind.LAYER}),
    Kind.ROTARY: frozenset({Kind.ROTARY})}
"""By a subject's kind, the kinds of faults that can stand in its place: a layer may be put around an attention."""


def _may_stand(fault: Fault, trial: Trial) -> bool:
    """Whether a fault can be told from rounding here, and is of a kind that can be put the same problems."""
    kinds = _ALIKE[trial.evaluator.subject.declaration.kind]
    return trial.evaluator.dtype not in fault.equivalents and fault.kind in kinds


def _bites(fault: Fault, case: FailingCase) -> bool:
    """Whether the sizes of the case are such as the fault shows at; most show at any."""
    return fault.planted is None or any(
        fault.planted.bites(axes_of(step.problem.sizes), step.problem.keywords) for step in case.log)


def _next_best(case: FailingCase, candidates: Sequence[Fault]) -> list[Fault]:
    """For the panel alone to judge: the faults nearest to the subject on the failing case, though not within rounding,
    and those with a memory, which the case alone may not bring out again.
    """
    near = [(case.nearness(fault) if case.fails else 1.0, index) for index, fault in enumerate(candidates)]
    nearest = [index for ratio, index in sorted(near) if ratio < 1][:NEAREST]
    remembering = [index for index, fault in enumerate(candidates) if fault.stage is Stage.STATE]
    return [candidates[index] for index in dict.fromkeys([*nearest, *remembering])]


@dataclass(frozen=True, slots=True, eq=False)
class Faring:
    """How the subject fares on the panel: its calls, and whether each is right."""

    bar: Bar
    panel: DiagnosticInputs
    steps: tuple[LoggedCall, ...]
    right: tuple[bool, ...]

    @classmethod
    def of(cls, bar: Bar, dtype: DType) -> Faring:
        """Put the panel to the subject of a bar."""
        panel = diagnostic_inputs(bar, dtype)
        steps = panel.put_to(bar.subject)
        return cls(bar, panel, steps, tuple(each.is_right(step, is_subject=True)
                                            for each, step in zip(panel.rulers, steps, strict=True)))

    def beside(self, fault: Fault, case: FailingCase) -> Tried:
        """How a fault fares on the panel, where either it or the subject is wrong, and on the failing case."""
        agreed, tried = int(case.fails), int(case.fails)
        for is_agreed in self._agreed(fault, case, len(self.steps)):
            agreed, tried = agreed + is_agreed, tried + 1
            if tried - agreed > max(agreed, PATIENCE):
                break
        return Tried(fault, agreed, tried)

    def bears_out(self, fault: Fault, case: FailingCase, *, of_old: bool = False) -> bool:
        """Whether no call of the panel speaks against the fault; it is put no further than the first that does.

        of_old: only calls count that it was put before.
        """
        return all(self._agreed(fault, case, self.panel.candidate(fault).answered if of_old else len(self.steps)))

    def _agreed(self, fault: Fault, case: FailingCase, calls: int) -> Iterator[bool]:
        """Whether fault and subject agree, call by call.

        Where the subject raises, it may not be meant to answer; that NaN leaks is another matter than most mistakes.
        """
        candidate = self.panel.candidate(fault)
        if case.bar.aspect is Aspect.KEPT and self.steps:
            candidate.step(len(self.steps) - 1)  # whether answers are kept shows when all calls are made
        for index in range(calls):
            held_to, seen, is_right = self.panel.rulers[index], self.steps[index], self.right[index]
            step = candidate.step(index)
            poisoned = self.panel.poisoned[index] and not case.is_poisoned
            if poisoned or (seen.ending is Ending.RAISED and not case.raises):
                continue
            wrong = (not is_right) + (not self.panel.is_right(fault, index))
            if wrong == BOTH:
                yield held_to.are_alike(seen, step, partial(candidate.shaken, index))
            elif wrong and not held_to.are_close(seen, step):
                yield False


def named(subject: Subject, dtype: DType, check: Check, recipe: Recipe, *,
          arithmetic: SoundArithmetic = SoundArithmetic.REORDERED, effort: Effort = Effort.QUICK,
          seed: int = 0) -> Diagnosis:
    """What the diagnosis says of the double of a fault, on the case that convicted the fault.

    Rounded otherwise, a fault at the edge of rounding may pass that case: the clause then finds one of its own, without
    shrinking. Nothing is named where it finds none.
    """
    def again() -> Subject:
        return double(own_subject(subject.id), arithmetic)

    trial = Trial(check, Evaluator(again(), dtype), effort, seed_of(seed, check.domain), lambda _: None,
                  shrinks=False)
    failing = recipe if judged(trial, trial.evaluator, recipe).failure is not None else _own_case(trial, again())
    return Diagnosis() if failing is None else diagnose(trial, failing, again=again)


def _own_case(trial: Trial, subject: Subject) -> Recipe | None:
    """The first case on which the clause convicts the double itself."""
    return replace(trial, evaluator=Evaluator(subject, trial.evaluator.dtype)).hold().failing
