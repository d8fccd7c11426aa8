"""The engine's items as jobs: what `check`, `audit` and `replay` carry out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import groupby

from attnspec.core.compiling import OWN_SIZES, RESHAPING
from attnspec.core.keyword_nouns import GRAD
from attnspec.core.nouns import DType, Verdict
from attnspec.core.plan import Conclusion, Item, JobFailure, Plan
from attnspec.record.events import Done, ItemFinished, RunStarted
from attnspec.record.outcome import Evidence, Outcome, SubjectCard
from attnspec.runner import jobs
from attnspec.runner.jobs import Breadcrumb
from attnspec.runner.judge import Judge, clause_of, complete, distinct_items, pronounce, summon
from attnspec.runner.texts import text_of
from attnspec.spec.clause import Clause, Spec

TRIALS = "attnspec.runner.trial_jobs:TrialJobs"
_ENGINE, _RECIPE = "engine", "recipe"


def with_engine(plan: Plan, *, engine: str, recipe: str) -> Plan:
    """The plan, saying by which engine and, to replay, on which one case."""
    return replace(plan, more={**plan.more, _ENGINE: (engine,), _RECIPE: (recipe,)})


def _dearness(clause: Clause) -> int:
    """0 for a clause whose cases have the sizes of others; where compilers have little time, what is dearer is last."""
    words = {word.name for steps in clause.runs.values() for word in steps}
    is_dear = words & RESHAPING or clause.given.args.get("kind") in OWN_SIZES
    return 2 if GRAD in clause.needs else 1 if is_dear else 0


class TrialJobs:
    """A source of jobs."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        [engine], [self.recipe] = plan.more[_ENGINE], plan.more[_RECIPE]
        self.plan = plan
        self.judge: Judge = summon(plan, engine=engine, breadcrumb=breadcrumb)

    @property
    def spec(self) -> Spec:
        """The engine's spec."""
        return self.judge.spec

    def items(self) -> tuple[Item, ...]:
        """The engine's items, each once; where variants of a subject compile, first those that ask its variants, and
        where compilers have little time, last those that are dear.

        Such an item takes as long as half of the other clauses: asked late, it leaves other workers idle.
        """
        asking = {clause.id for clause in self.spec.clauses if clause.flips or clause.made}
        groups = groupby(distinct_items(self.judge), lambda item: (item.target, item.dtype))
        return tuple(item for (target, _), group in groups for item in self._ordered(target, tuple(group), asking))

    def _ordered(self, target: str, items: Sequence[Item], first: Collection[str]) -> Sequence[Item]:
        if self.judge.hurries(target):
            dear = {clause.id: _dearness(clause) for clause in self.spec.clauses}
            return sorted(items, key=lambda item: dear.get(item.clause, 0))
        return sorted(items, key=lambda item: item.clause not in first) if self.judge.compiles(target) else items

    def header(self, blank: RunStarted) -> RunStarted:
        """With every clause that is on trial."""
        clauses = dict.fromkeys(item.clause for item in distinct_items(self.judge))
        texts = tuple(text_of(clause_of(self.spec, name), self.spec) for name in clauses)
        return replace(blank, clauses=texts, sample=self.plan.sample)

    def card(self, target: str) -> SubjectCard:
        """The engine's card of the subject."""
        return self.judge.card(target)

    def carry_out(self, job: Item) -> ItemFinished:
        """Try the item."""
        return ItemFinished(pronounce(self.judge, job, plan=self.plan, recipe=self.recipe))

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Have each failure told as it is found."""
        def pass_on(outcome: Outcome) -> None:
            item = Item(outcome.subject, outcome.clause, outcome.dtype.value)
            tell(ItemFinished(complete(outcome, item, self.plan)))

        self.judge.tell = pass_on

    def seconds_compiling(self, target: str) -> float:
        """The engine's."""
        return self.judge.seconds_compiling(target)

    def lost(self, job: Item, loss: JobFailure) -> ItemFinished:
        """The outcome of an item that came to nothing; a death is evidence."""
        level = clause_of(self.spec, job.clause).level
        outcome = Outcome(job.target, job.clause, DType(job.dtype), level, loss.verdict)
        if loss.verdict is Verdict.NOT_RUN:
            return ItemFinished(replace(outcome, reason=loss.reason))
        evidence = Evidence(loss.reason, case="", recipe=loss.recipe or self.recipe, traceback=loss.traceback,
                            stderr=loss.stderr)
        lost = complete(replace(outcome, evidence=evidence), job, self.plan)
        return ItemFinished(lost if self.recipe else self.judge.compared(lost))

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """The counts of verdicts, and the exit code that follows from them."""
        outcomes = [each.outcome for each in done if isinstance(each, ItemFinished)]
        code = jobs.exit_code(outcomes, strict=self.plan.strict, interrupted=interrupted)
        return Conclusion(code, jobs.counts(outcomes))
