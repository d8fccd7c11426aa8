"""One subject at one dtype and seed before the suite and before the rules of today, and what each makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import DType, Effort, Level
from attnspec.core.plan import is_fault
from attnspec.diagnosis.candidate import Matrix, Witnesses, judge_case
from attnspec.diagnosis.diagnose import Diagnosis, Examiner
from attnspec.faults.subject import SoundArithmetic, double, own_subject
from attnspec.problems.problem import Recipe
from attnspec.record.events import SUITE, Conviction, SubjectPut
from attnspec.spec.clause import is_due, is_put_whole
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Archive, Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.own_subjects import shared_archive
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial

from evaluation.baselines.every import EVERY
from evaluation.baselines.gradient_rules import GradientRule
from evaluation.baselines.rules import Rule


@dataclass(frozen=True, slots=True)
class Detection:
    """The suite's conviction of a subject, and what it rests on: a clause and the recipe of the case; None if none."""

    conviction: Conviction
    check: Check | None = None
    recipe: Recipe | None = None


def convict(subject: Subject, dtype: DType, *, checks: Mapping[str, Check], effort: Effort, seed: int,
            first: Sequence[str] = (), archive: Archive | None = None, sample: int = 0) -> Detection:
    """The smallest number of cases in which a clause convicts the subject, among the clauses that may.

    checks: the law, in its own order.  first: the clauses to begin with; those that witness the fault. They convict at
    any level, all others only where they say `must`.  Once a clause has convicted in k cases, the others are tried on
    k - 1, so that the search ends at the first clause that convicts in one. Cases are counted whether or not they lay
    in the domain of the bound. Where nothing convicts, `cases` is what the most patient clause tried.
    archive: what is known of the problems, for subjects of one class and convention to share.  sample: so many cases
    stand for all, as at a further dtype of a check; 0: all are tried.
    """
    dock = _Dock(subject, dtype, archive or Archive())
    best, most, problems, patience = Detection(Conviction(SUITE, convicted=False, cases=0)), 0, 0, 0
    dealer = Dealer(subject, lambda: checks, effort, seed)
    for check in _in_order(checks, first, subject):
        if not is_due(check.clause, dtype, effort, tuple(DType)):
            continue
        trial = Trial(check, dock.evaluator(), effort, seed_of(seed, check.domain), lambda _: None, shrinks=False,
                      max_cases=most, shapes=dealer.shapes(check, dtype),
                      sample=0 if is_put_whole(check.clause, dtype, tuple(DType)) else sample)
        tally = trial.hold()
        problems, patience = problems + tally.tried_count, max(patience, tally.tried_count)
        if tally.failure is not None:
            best, most = _detection_of(check, tally), tally.tried_count - 1
            if not most:
                break
    return _count_cases(best, problems, patience)


def _in_order(checks: Mapping[str, Check], first: Sequence[str], subject: Subject) -> Iterator[Check]:
    rest = (name for name, check in checks.items() if name not in first and check.clause.level is Level.MUST)
    for name in (*first, *rest):
        if not checks[name].why_not_put(subject):
            yield checks[name]


@dataclass(frozen=True, slots=True)
class _Dock:
    """Where the subject stands: what the clauses have in common is worked out once."""

    subject: Subject
    dtype: DType
    archive: Archive
    _evaluators: list[Evaluator] = field(default_factory=list)

    def evaluator(self) -> Evaluator:
        """For the next clause. A fault is made anew: what one clause asked of one with a memory must not serve it."""
        if is_fault(self.subject.id):
            return Evaluator(own_subject(self.subject.id), self.dtype, archive=self.archive)
        if not self._evaluators:
            self._evaluators.append(Evaluator(self.subject, self.dtype, archive=self.archive))
        return self._evaluators[0]


def _detection_of(check: Check, tally: Tally) -> Detection:
    sentence = tally.failure.measured.sentence if isinstance(tally.failure, Violated) else str(tally.failure)
    conviction = Conviction(SUITE, convicted=True, cases=tally.tried_count, clause=check.clause.id,
                            instrument=check.instrument, sentence=sentence)
    return Detection(conviction, check, tally.failing_recipe)


def _count_cases(found: Detection, problems: int, patience: int) -> Detection:
    was = found.conviction
    cases = was.cases if was.convicted else patience
    return replace(found, conviction=replace(was, cases=cases, problems=problems))


Summon = Callable[[], Subject]  # makes the subject anew


@dataclass(frozen=True, slots=True)
class Rules:
    """What a subject is put to. names: of rules, the suite among them.  first: the clauses that witness the fault.

    diagnoses: whether the suite's counterexample is put to the diagnosis.  matrix: by which clauses it then decides
    between faults.  sample: see `convict`.
    """

    checks: Mapping[str, Check]
    effort: Effort
    names: Sequence[str]
    first: Sequence[str] = ()
    diagnoses: bool = True
    matrix: Matrix = field(default_factory=Matrix)
    sample: int = 0


def measure_subject(blank: SubjectPut, rules: Rules, summon: Summon) -> SubjectPut:
    """The measurement on one subject. `blank` says which, at which dtype and seed."""
    said = replace(blank, convictions=tuple(_peers(blank, rules, summon)))
    if SUITE not in rules.names:
        return said
    subject = summon()
    found = convict(subject, blank.dtype, checks=rules.checks, effort=rules.effort, seed=blank.seed,
                    first=rules.first, archive=shared_archive(subject, blank.dtype), sample=rules.sample)
    if not blank.is_fault:
        return replace(said, convictions=(found.conviction, *said.convictions))
    brief = replace(found.conviction, sentence="")  # a thousand of them would be most of a record
    said = replace(said, convictions=(brief, *said.convictions))
    return _add_diagnosis(said, found, rules, summon) if rules.diagnoses else replace(said, undiagnosed=True)


def _peers(blank: SubjectPut, rules: Rules, summon: Summon) -> Iterator[Conviction]:
    for name, rule in EVERY.items():
        if name in rules.names and blank.dtype in rule.dtypes and rule.suits(subject := summon()):
            yield judge_by_rule(rule, subject, blank.dtype, blank.seed)


def judge_by_rule(rule: Rule | GradientRule, subject: Subject, dtype: DType, seed: int) -> Conviction:
    """What a rule of today says: it stops at the first case that it calls wrong."""
    cases = 0
    for is_wrong in rule.judge(subject, dtype, seed):
        cases += 1
        if is_wrong:
            return Conviction(rule.name, convicted=True, cases=cases)
    return Conviction(rule.name, convicted=False, cases=cases)


def _add_diagnosis(said: SubjectPut, found: Detection, rules: Rules, summon: Summon) -> SubjectPut:
    """With what the diagnosis says of the suite's counterexample, where another arithmetic makes the same mistake."""
    if found.check is None or found.recipe is None:
        return said
    witnesses = Witnesses(rules.matrix, said.seed)
    like = diagnose_double(summon(), said.dtype, found.check, found.recipe, effort=rules.effort, seed=said.seed,
                           witnesses=witnesses).likely_faults
    ties = [each.fault for each in like if (each.agreed, each.tried) == (like[0].agreed, like[0].tried)]
    return replace(said, named=ties[0], like=tuple(ties[1:])) if ties else said


def diagnose_double(subject: Subject, dtype: DType, check: Check, recipe: Recipe, *,
                    arithmetic: SoundArithmetic = SoundArithmetic.REORDERED, effort: Effort = Effort.QUICK,
                    seed: int = 0, witnesses: Witnesses | None = None) -> Diagnosis:
    """What the diagnosis says of the double of a fault, on the case that convicted the fault.

    Rounded otherwise, a fault at the edge of rounding may pass that case: the clause then finds one of its own, without
    shrinking. Nothing is named where it finds none.
    """
    def make_double() -> Subject:
        return double(own_subject(subject.id), arithmetic)

    trial = Trial(check, Evaluator(make_double(), dtype), effort, seed_of(seed, check.domain), lambda _: None,
                  shrinks=False)
    failing: Recipe | None = recipe
    if judge_case(trial, trial.evaluator, recipe).failure is None:
        failing = replace(trial, evaluator=Evaluator(make_double(), dtype)).hold().failing_recipe
    if failing is None:
        return Diagnosis()
    return Examiner(make_double, witnesses or Witnesses()).diagnose(trial, failing)
