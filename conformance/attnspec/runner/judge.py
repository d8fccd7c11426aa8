"""The runner's side of the engine: what it asks for, how an item's verdict is completed for a record, and outcomes and
clauses in words.
"""

from __future__ import annotations

import importlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from attnspec.core.errors import AttnspecError, UsageError, quoted
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.paths import portable_argument, typed_here
from attnspec.core.plan import HANDED, Item, Plan
from attnspec.record.outcome import ClauseText, Evidence, Likeness, Outcome, QuotedSource, SubjectCard
from attnspec.runner.jobs import Breadcrumb
from attnspec.spec.clause import Citation, Clause, Spec

_WORDS = 4
ENGINE = "attnspec.engine.engine:Engine"


class Judge(Protocol):
    """What a runner needs of `engine.Engine`. Its first three members are light; the others load adapters."""

    tell: Callable[[Outcome], None]
    """Is told an outcome that fails before its smallest case and a cause are found."""

    @property
    def spec(self) -> Spec:
        """The law that is applied."""

    def items(self) -> tuple[Item, ...]:
        """What the plan puts on trial, in an order that depends on the plan alone."""

    def compiles(self, target: str) -> bool:
        """Whether some variant of a target compiles."""

    def hurries(self, target: str) -> bool:
        """Whether a target is known to compile for each shape, and has little time for that."""

    def seconds_compiling(self, target: str) -> float:
        """What a compiler has taken so far for a subject, by the clock."""

    def fetch(self, target: str) -> None:
        """Load what the target names. Raises AttnspecError where it cannot be had."""

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject."""

    def find_refused(self, target: str) -> Mapping[str, str]:
        """What a subject refuses, with its words, as far as that is known."""

    def try_item(self, item: Item) -> Outcome:
        """The verdict on one item. Raises AttnspecError only where the subject cannot be had at all."""

    def replay(self, item: Item, recipe: str) -> Outcome:
        """The verdict on one case of an item."""

    def compare_with_known(self, outcome: Outcome) -> Outcome:
        """An outcome that `try_item` did not live to give, in the light of the failures that are known."""


def load_engine(plan: Plan, *, engine: str = ENGINE, breadcrumb: Breadcrumb = lambda _: None) -> Judge:
    """The engine for this plan. Raises AttnspecError where the law, a manifest or the plan is badly written."""
    module, _, name = engine.partition(":")
    judge: Judge = getattr(importlib.import_module(module), name)(plan, breadcrumb=breadcrumb)
    return judge


def distinct_items(judge: Judge) -> tuple[Item, ...]:
    """The items of a judge, each once: whoever names a target or a clause twice means it once."""
    return tuple(dict.fromkeys(judge.items()))


def pronounce_verdict(judge: Judge, item: Item, *, plan: Plan, recipe: str = "") -> Outcome:
    """Try the item, or one case of it. A subject that cannot be had is NOT_RUN; what else escapes is our defect."""
    began = time.perf_counter()
    try:
        outcome = judge.replay(item, recipe) if recipe else judge.try_item(item)
    except AttnspecError as problem:
        outcome = not_run(item, clause_of(judge.spec, item.clause).level, str(problem))
    return complete_outcome(replace(outcome, seconds=time.perf_counter() - began), item, plan)


def complete_outcome(outcome: Outcome, item: Item, plan: Plan) -> Outcome:
    """Add the command that repeats the case, where there is a case."""
    recipe = outcome.evidence.recipe if outcome.evidence else ""
    if outcome.repeat or not recipe or item.target.startswith(HANDED):
        return outcome
    return replace(outcome, repeat=replay_command(item, recipe, plan))


def not_run(item: Item, level: Level, reason: str) -> Outcome:
    """The outcome of an item that was not tried."""
    return Outcome(item.target, item.clause, DType(item.dtype), level, Verdict.NOT_RUN, reason)


def clause_of(spec: Spec, name: str) -> Clause:
    """The clause with this id."""
    return next(clause for clause in spec.clauses if clause.id == name)


def replay_command(item: Item, recipe: str, plan: Plan) -> str:
    """What to type to see one case again, in any shell."""
    options = [word for folder in plan.implementations for word in ("--implementations", folder)]
    options += ["--lift", plan.lift] if plan.lift else []
    given = {"--python": typed_here(plan.python), "--host": plan.host, "--device": plan.device,
             "--memory": f"{plan.memory / 2**30:g}" if plan.memory else ""}
    options += [word for option, value in given.items() if value for word in (option, value)]
    options += ["--spec", plan.spec] if plan.spec else []
    options += [word for file in plan.spec_add for word in ("--spec-add", portable_argument(file))]
    return shlex.join(["attnspec", "replay", *options, f"{item.target} {item.clause} {item.dtype} {recipe}"])


def read_replay(line: str) -> tuple[Item, str]:
    """The item and the recipe of a line that `replay_command` printed. Only the target may hold spaces."""
    words = line.rsplit(maxsplit=3)
    if len(words) != _WORDS:
        raise UsageError("a line to replay has four parts, 'TARGET CLAUSE DTYPE RECIPE', as a report prints it.")
    target, clause, dtype, recipe = words
    if any(sign in clause for sign in "*?["):
        raise UsageError(f"{quoted(clause)} names no single clause, and a case is that of one. Take the line as a "
                         "report prints it.")
    if dtype not in {each.value for each in DType}:
        raise UsageError.unknown("dtype", dtype, [each.value for each in DType])
    return Item(target, clause, dtype), recipe


HAPPENED: Mapping[Verdict, str] = {
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


RECOMMENDED = "is a recommendation that is not followed"
"""What happened where a clause that does not gate is violated."""

OTHER_CONVENTION = "recommends another convention; libraries use both"
"""The same where libraries differ, and the subject does what some of them do."""


LIKE = 5
"""So many of the faults that explain a failure are told."""


def format_violation(outcome: Outcome, *, says: str, where: str, also: Sequence[DType] = (), happened: str = "") -> str:
    """A failure as the command line and pytest print it: why, the claim, the case, what was seen, how to see it again.

    also: the other dtypes at which it fails.  happened: in the place of what the verdict says.
    """
    head = f"{outcome.clause} ({where}) {happened or HAPPENED[outcome.verdict]}"
    others = f" (also {', '.join(dtype.value for dtype in also)})" if also else ""
    by = f"{outcome.subject}, {outcome.dtype.value}{others}"
    seen = outcome.evidence.sentence if outcome.evidence else ""
    note = outcome.reason if outcome.reason != seen else ""
    rows = [*_place(outcome.evidence), *_explanation(outcome.evidence), ("says", says), ("by", by),
            *_evidence(outcome.evidence), ("note", note), ("again", outcome.repeat)]
    return "\n".join([head, *(f"  {name}: {_indented(text)}" for name, text in rows if text)])


def _place(evidence: Evidence | None) -> list[tuple[str, str]]:
    return [("begins", evidence.begins), ("wrong", evidence.wrong)] if evidence else []


def _explanation(evidence: Evidence | None) -> list[tuple[str, str]]:
    explained = evidence.explained if evidence else None
    return [("cause", explained.cause), ("do", explained.advice), ("paste", explained.declare)] if explained else []


def _evidence(evidence: Evidence | None) -> list[tuple[str, str]]:
    if evidence is None:
        return []
    return [("case", evidence.case or evidence.recipe), ("seen", evidence.sentence),
            ("like", _likeness(evidence.like)), ("where", "" if evidence.explained else evidence.located),
            ("trace", _shortened(_without_carets(evidence.traceback), 3, 3)),
            ("printed", _shortened(evidence.stderr, 1, 2))]


def _likeness(like: Sequence[Likeness]) -> str:
    """The likeliest fault with its story and link; the names of those that explain it as well."""
    if not like:
        return ""
    first, *others = like[:LIKE]
    told = f"{first.fault} (in {first.agreed} of {first.tried} cases): {first.story} {first.link}".rstrip()
    return f"{told}\nor {', '.join(each.fault for each in others)}" if others else told


def _without_carets(traceback: str) -> str:
    """The lines that underline code are for eyes that see it in place."""
    return "\n".join(line for line in traceback.splitlines() if line.strip("^~ ") or not line)


def _shortened(text: str, first: int, last: int) -> str:
    """What matters of a stack or of a library's output stands at one of its ends."""
    lines = text.rstrip().splitlines()
    return "\n".join([*lines[:first], "…", *lines[-last:]] if len(lines) > first + last + 1 else lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + 8 * " ")


def in_short(outcome: Outcome) -> str:
    """An outcome in one line: the verdict and why."""
    begins, seen = (outcome.evidence.begins, outcome.evidence.sentence) if outcome.evidence else ("", "")
    why = " ".join(filter(None, (begins, outcome.reason or seen)))
    return f"{outcome.clause} {HAPPENED[outcome.verdict]}" + (f": {why}" if why else "")


def text_of(clause: Clause, spec: Spec) -> ClauseText:
    """What a record's header keeps of a clause."""
    return ClauseText(
        clause.id, clause.theme, clause.level, clause.profile, clause.says, clause.formula,
        tuple(_quote_source(each, spec) for each in clause.because), tuple(sorted(clause.needs)), clause.problem,
        clause.refuted_by, clause.note, str(replace(clause.where, file=portable_argument(clause.where.file))))


def _quote_source(citation: Citation, spec: Spec) -> QuotedSource:
    source = spec.bibliography[citation.cite]
    return QuotedSource(citation.cite, citation.at, citation.quote, citation.note, source.title, source.url,
                        citation.translation)
