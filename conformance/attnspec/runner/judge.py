"""Carries out the engine's items as the jobs of `check`, `audit` and `replay`.

It adds to an item's verdict what a record needs, and puts outcomes and clauses into words. An
audit probes every subject and variant in the same run.
"""

from __future__ import annotations

import importlib
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from attnspec.core.effort import OWN_SIZES, RESHAPING
from attnspec.core.errors import CANNOT_RUN, VIOLATED, AttnspecError, UsageError, quote_value
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.paths import portable_argument, typed_here
from attnspec.core.plan import HANDED, Conclusion, Item, Job, JobFailure, Plan
from attnspec.probing.jobs import ProbeJob, ProbeJobs
from attnspec.record.events import Done, ItemFinished, RunStarted, SubjectProbed
from attnspec.record.outcome import ClauseText, Evidence, Likeness, Outcome, QuotedSource, SubjectCard
from attnspec.runner import jobs
from attnspec.runner.jobs import Breadcrumb
from attnspec.spec.clause import Citation, Clause, Spec
from attnspec.subjects.registry import registered_subjects

_REPLAY_WORDS = 4
ENGINE_CLASS = "attnspec.engine.engine:Engine"


class Judge(Protocol):
    """The part of `engine.Engine` that a runner needs. The first three members are fast."""

    tell: Callable[[Outcome], None]
    """Is told an outcome that fails before its smallest case and a cause are found."""

    @property
    def spec(self) -> Spec:
        """The spec by which items are judged."""

    def items(self) -> tuple[Item, ...]:
        """Returns the items of the plan, in an order that depends on the plan alone."""

    def compiles(self, target: str) -> bool:
        """Whether some variant of a target compiles."""

    def hurries(self, target: str) -> bool:
        """Whether a target compiles for each shape, and has little time for that."""

    def seconds_compiling(self, target: str) -> float:
        """Returns the seconds that compilers have taken so far for a subject."""

    def fetch(self, target: str) -> None:
        """Loads what the target names. Raises AttnspecError where it cannot be loaded."""

    def card(self, target: str) -> SubjectCard:
        """Returns what a report says of a subject."""

    def find_refused(self, target: str) -> Mapping[str, str]:
        """Returns what a subject refuses, with its words, as far as that is known."""

    def applies(self, item: Item) -> bool:
        """Whether the subject takes what an item needs. Raises AttnspecError as `card` does."""

    def try_item(self, item: Item) -> Outcome:
        """Judges one item. Raises AttnspecError where the subject cannot be loaded."""

    def replay(self, item: Item, recipe: str) -> Outcome:
        """Judges one case of an item."""

    def compare_with_known(self, outcome: Outcome) -> Outcome:
        """Compares an outcome that `try_item` did not give with the known failures."""


def load_engine(plan: Plan, *, engine: str = ENGINE_CLASS,
                breadcrumb: Breadcrumb = lambda _: None) -> Judge:
    """Makes the engine for this plan. Raises AttnspecError for a bad spec, manifest or plan."""
    module, _, name = engine.partition(":")
    judge: Judge = getattr(importlib.import_module(module), name)(plan, breadcrumb=breadcrumb)
    return judge


def distinct_items(judge: Judge) -> tuple[Item, ...]:
    """Returns the items of a judge, each once, even if a target or clause is named twice."""
    return tuple(dict.fromkeys(judge.items()))


def pronounce_verdict(judge: Judge, item: Item, *, plan: Plan, recipe: str = "") -> Outcome:
    """Judges the item, or one case of it; NOT_RUN if the subject cannot be loaded."""
    began = time.perf_counter()
    try:
        outcome = judge.replay(item, recipe) if recipe else judge.try_item(item)
    except AttnspecError as problem:
        outcome = not_run(item, clause_of(judge.spec, item.clause).level, str(problem))
    return complete_outcome(replace(outcome, seconds=time.perf_counter() - began), item, plan)


def complete_outcome(outcome: Outcome, item: Item, plan: Plan) -> Outcome:
    """Adds the command that repeats the case, where there is a case."""
    recipe = outcome.evidence.recipe if outcome.evidence else ""
    if outcome.repeat or not recipe or item.target.startswith(HANDED):
        return outcome
    return replace(outcome, repeat=replay_command(item, recipe, plan))


def not_run(item: Item, level: Level, reason: str) -> Outcome:
    """Makes the outcome of an item that was not tried."""
    return Outcome(item.target, item.clause, DType(item.dtype), level, Verdict.NOT_RUN, reason)


def clause_of(spec: Spec, name: str) -> Clause:
    """Finds the clause with this id."""
    return next(clause for clause in spec.clauses if clause.id == name)


def replay_command(item: Item, recipe: str, plan: Plan) -> str:
    """Writes the command that repeats one case, for any shell."""
    options = [word for folder in plan.implementations for word in ("--implementations", folder)]
    memory = f"{plan.memory / 2**30:g}" if plan.memory else ""
    values = {"--lift": plan.lift, "--python": typed_here(plan.python), "--host": plan.host,
              "--device": plan.device, "--memory": memory, "--spec": plan.spec}
    options += [word for option, value in values.items() if value for word in (option, value)]
    options += [word for file in plan.spec_add for word in ("--spec-add", portable_argument(file))]
    return shlex.join(["attnspec", "replay", *options,
                       f"{item.target} {item.clause} {item.dtype} {recipe}"])


def read_replay(line: str) -> tuple[Item, str]:
    """Reads item and recipe from a line of `replay_command`. Only the target may hold spaces."""
    words = line.rsplit(maxsplit=3)
    if len(words) != _REPLAY_WORDS:
        raise UsageError(
            "a line to replay has four parts, 'TARGET CLAUSE DTYPE RECIPE', as a report prints it.")
    target, clause, dtype, recipe = words
    if any(sign in clause for sign in "*?["):
        raise UsageError(f"{quote_value(clause)} names no single clause, and a case is that of one. Take the line as a "
                         "report prints it.")
    if dtype not in {each.value for each in DType}:
        raise UsageError.unknown("dtype", dtype, [each.value for each in DType])
    return Item(target, clause, dtype), recipe


VERDICT_PHRASES: Mapping[Verdict, str] = {
    Verdict.HELD: "holds",
    Verdict.VIOLATED: "is violated",
    Verdict.INAPPLICABLE: "does not apply",
    Verdict.NO_CLAIM: "could not be decided on any case",
    Verdict.ERRORED: "fails: the implementation raised an exception",
    Verdict.CRASHED: "fails: the process crashed",
    Verdict.TIMED_OUT: "fails: no answer before the deadline",
    Verdict.NOT_RUN: "was not run",
    Verdict.EXPECTED: "is violated, as the list of known deviations says",
    Verdict.UNEXPECTED: "differs from the list of known deviations",
}


RECOMMENDATION_PHRASE = "is a recommendation that is not followed"
"""What happened where a clause that does not gate is violated."""

CONVENTION_PHRASE = "recommends another convention; libraries use both"
"""The same where libraries differ, and the subject does what some of them do."""


MAX_LIKENESSES = 5
"""So many of the faults that explain a failure are told."""


def format_violation(outcome: Outcome, *, says: str, where: str, also: Sequence[DType] = (),
                     happened: str = "") -> str:
    """Describes a failure as the command line and pytest print it.

    The lines give the cause, the claim, the case, what was observed and the command that repeats
    it.  also: the other dtypes at which the clause fails.  happened: replaces the phrase for the
    verdict.
    """
    head = f"{outcome.clause} ({where}) {happened or VERDICT_PHRASES[outcome.verdict]}"
    others = f" (also {', '.join(dtype.value for dtype in also)})" if also else ""
    by = f"{outcome.subject}, {outcome.dtype.value}{others}"
    rows, note = [("says", says), ("by", by)], outcome.reason
    if evidence := outcome.evidence:
        rows = [*_cause_rows(evidence), *rows, *_evidence_rows(evidence)]
        if note == evidence.sentence:
            note = ""
    rows += [("note", note), ("again", outcome.repeat)]
    indented = [(name, text.replace("\n", "\n" + 8 * " ")) for name, text in rows if text]
    return "\n".join([head, *(f"  {name}: {text}" for name, text in indented)])


def _cause_rows(evidence: Evidence) -> list[tuple[str, str]]:
    rows, explained = [("begins", evidence.begins), ("wrong", evidence.wrong)], evidence.explained
    if explained:
        rows += [("cause", explained.cause), ("do", explained.advice),
                 ("paste", explained.declare)]
    return rows


def _evidence_rows(evidence: Evidence) -> list[tuple[str, str]]:
    return [("case", evidence.case or evidence.recipe), ("seen", evidence.sentence),
            ("like", _describe_likeness(evidence.like)),
            ("where", "" if evidence.explained else evidence.located),
            ("trace", _shorten_lines(_without_carets(evidence.traceback), 3, 3)),
            ("printed", _shorten_lines(evidence.stderr, 1, 2))]


def _describe_likeness(like: Sequence[Likeness]) -> str:
    """Describes the likeliest fault, and names those that explain the failure as well."""
    if not like:
        return ""
    first, *others = like[:MAX_LIKENESSES]
    cases = f"in {first.agreed} of {first.tried} cases"
    text = f"{first.fault} ({cases}): {first.story} {first.link}".rstrip()
    if others:
        return f"{text}\nor {', '.join(each.fault for each in others)}"
    return text


def _without_carets(traceback: str) -> str:
    """Removes the lines of a traceback that underline code."""
    return "\n".join(line for line in traceback.splitlines() if line.strip("^~ ") or not line)


def _shorten_lines(text: str, first: int, last: int) -> str:
    """Keeps the first and last lines, where a stack or a library's output says most."""
    lines = text.rstrip().splitlines()
    if len(lines) > first + last + 1:
        lines = [*lines[:first], "…", *lines[-last:]]
    return "\n".join(lines)


def summarise_outcome(outcome: Outcome) -> str:
    """Says the verdict and its reason in one line."""
    begins, why = "", outcome.reason
    if outcome.evidence:
        begins, why = outcome.evidence.begins, why or outcome.evidence.sentence
    verdict = f"{outcome.clause} {VERDICT_PHRASES[outcome.verdict]}"
    return ": ".join(filter(None, (verdict, " ".join(filter(None, (begins, why))))))


def describe_clause(clause: Clause, spec: Spec) -> ClauseText:
    """Makes the text of a clause for a record's header."""
    return ClauseText(clause.id, clause.theme, clause.level, clause.profile, clause.says,
                      clause.formula, tuple(_quote_source(each, spec) for each in clause.because),
                      tuple(sorted(clause.needs)), clause.problem, clause.refuted_by, clause.note,
                      str(replace(clause.where, file=portable_argument(clause.where.file))))


def _quote_source(citation: Citation, spec: Spec) -> QuotedSource:
    source = spec.bibliography[citation.cite]
    return QuotedSource(citation.cite, citation.at, citation.quote, citation.note, source.title,
                        source.url, citation.translation)


TRIAL_SOURCE = "attnspec.runner.judge:TrialJobs"
_ENGINE_KEY, _RECIPE_KEY = "engine", "recipe"


def with_engine(plan: Plan, *, engine: str, recipe: str) -> Plan:
    """Adds to the plan the engine that judges and, for a replay, the recipe of the case."""
    return replace(plan, more={**plan.more, _ENGINE_KEY: (engine,), _RECIPE_KEY: (recipe,)})


def _dearness(clause: Clause) -> int:
    """Ranks how long a clause takes: 0 for a clause whose cases have the usual sizes, up to 2."""
    words = {word.name for steps in clause.runs.values() for word in steps}
    is_dear = words & RESHAPING or clause.given.args.get("kind") in OWN_SIZES
    if GRAD in clause.needs:
        return 2
    if is_dear:
        return 1
    return 0


class TrialJobs:
    """A source of jobs: the engine tries each of its items."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        [engine], [self.recipe] = plan.more[_ENGINE_KEY], plan.more[_RECIPE_KEY]
        self.plan = plan
        self.judge: Judge = load_engine(plan, engine=engine, breadcrumb=breadcrumb)

    @property
    def spec(self) -> Spec:
        """The engine's spec."""
        return self.judge.spec

    def items(self) -> tuple[Job, ...]:
        """Returns the engine's items, each once, in the order in which workers take them.

        Where variants of a subject compile, the clauses that ask its variants come first: such an
        item takes as long as half of the other clauses, so that at the end it would leave other
        workers idle. Where compilers have little time, the clauses that take longest come last.
        """
        asking = {clause.id for clause in self.spec.clauses if clause.flips or clause.made_forms}
        groups = groupby(distinct_items(self.judge), lambda item: (item.target, item.dtype))
        return tuple(item for (target, _), group in groups
                     for item in self._order_items(target, tuple(group), asking))

    def _order_items(self, target: str, items: Sequence[Item],
                     first: Collection[str]) -> Sequence[Item]:
        if self.judge.hurries(target):
            dear = {clause.id: _dearness(clause) for clause in self.spec.clauses}
            return sorted(items, key=lambda item: dear.get(item.clause, 0))
        if self.judge.compiles(target):
            return sorted(items, key=lambda item: item.clause not in first)
        return items

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds the text of every clause that is tried."""
        clauses = dict.fromkeys(item.clause for item in distinct_items(self.judge))
        texts = tuple(describe_clause(clause_of(self.spec, name), self.spec) for name in clauses)
        return replace(blank, clauses=texts, sample=self.plan.sample)

    def card(self, target: str) -> SubjectCard:
        """Returns the engine's card of the subject."""
        return self.judge.card(target)

    def is_tried(self, job: Job) -> bool:
        """Whether the item's clause applies to its subject, or one case is replayed."""
        return bool(self.recipe) or not isinstance(job, Item) or self.judge.applies(job)

    def carry_out(self, job: Item) -> Done:
        """Tries an item."""
        return ItemFinished(pronounce_verdict(self.judge, job, plan=self.plan, recipe=self.recipe))

    def tell_failures(self, tell: Callable[[Done], None]) -> None:
        """Makes the engine call `tell` with each failure as soon as it is found."""
        def pass_on(outcome: Outcome) -> None:
            item = Item(outcome.subject, outcome.clause, outcome.dtype.value)
            tell(ItemFinished(complete_outcome(outcome, item, self.plan)))

        self.judge.tell = pass_on

    def seconds_compiling(self, target: str) -> float:
        """Returns the seconds that compilers took for a subject, by the engine."""
        return self.judge.seconds_compiling(target)

    def record_loss(self, job: Item, loss: JobFailure) -> Done:
        """Makes the outcome of an item without a result; a death is evidence."""
        level = clause_of(self.spec, job.clause).level
        outcome = Outcome(job.target, job.clause, DType(job.dtype), level, loss.verdict)
        if loss.verdict is Verdict.NOT_RUN:
            return ItemFinished(replace(outcome, reason=loss.reason))
        evidence = Evidence(loss.reason, case="", recipe=loss.recipe or self.recipe,
                            traceback=loss.traceback, stderr=loss.stderr)
        lost = complete_outcome(replace(outcome, evidence=evidence), job, self.plan)
        return ItemFinished(lost if self.recipe else self.judge.compare_with_known(lost))

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """Counts the verdicts, and derives the exit code from them."""
        outcomes = [each.outcome for each in done if isinstance(each, ItemFinished)]
        code = jobs.exit_code(outcomes, strict=self.plan.strict, interrupted=interrupted)
        return Conclusion(code, jobs.count_verdicts(outcomes))


AUDIT_SOURCE = "attnspec.runner.judge:AuditJobs"
LIBRARIES_KEY = "libraries"
"""Where a plan says which libraries are audited; none named: all."""


class AuditJobs(TrialJobs):
    """A source of trials and probes. An answer that contradicts a manifest exits with 1."""

    def __init__(self, plan: Plan, *, breadcrumb: Breadcrumb = lambda _: None) -> None:
        super().__init__(plan, breadcrumb=breadcrumb)
        self._probes = ProbeJobs(plan, breadcrumb=breadcrumb)

    def items(self) -> tuple[Job, ...]:
        """Puts probes right after their subject's trials, while a worker has it loaded."""
        by_target: dict[str, list[Job]] = {}
        for job in (*super().items(), *self._probes.items()):
            by_target.setdefault(job.target, []).append(job)
        return tuple(job for of_one in by_target.values() for job in of_one)

    def header(self, blank: RunStarted) -> RunStarted:
        """Adds the text of every clause that is tried, and the subjects that are absent."""
        return replace(super().header(blank), absent=tuple(_absent_subjects(self.plan)))

    def carry_out(self, job: Item | ProbeJob) -> Done:
        """Tries the item, or probes the subject."""
        if isinstance(job, ProbeJob):
            return self._probes.carry_out(job)
        return super().carry_out(job)

    def record_loss(self, job: Item | ProbeJob, loss: JobFailure) -> Done:
        """Returns the event that the record has for a job without a result."""
        if isinstance(job, ProbeJob):
            return self._probes.record_loss(job, loss)
        return super().record_loss(job, loss)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """Counts verdicts and contradictions. The graver of both exit codes counts."""
        trials = super().conclude(done, interrupted=interrupted)
        if not any(isinstance(each, SubjectProbed) for each in done):
            return trials
        probes = self._probes.conclude(done, interrupted=interrupted)
        codes = {trials.exit_code, probes.exit_code}
        code = VIOLATED if VIOLATED in codes else max(codes)
        if interrupted:
            code = CANNOT_RUN
        return Conclusion(code, {**trials.counts, **probes.counts})


def _absent_subjects(plan: Plan) -> Iterator[Mapping[str, str]]:
    """Lists the subjects of the audited libraries that are not installed, with the reason."""
    libraries = plan.more.get(LIBRARIES_KEY, ())
    for name, subject in registered_subjects(plan.implementations).items():
        is_audited = not libraries or subject.library.folder in libraries
        if subject.why_missing and is_audited:
            yield {"subject": name, "library": subject.library.name, "title": subject.title,
                   "reason": subject.why_missing}
