"""What `check` says of single bugs: whether the first line names the true one, as one, and what its cases contradict.

    python conformance/benchmarks/bugs.py --count 100 --seed 1 --record bugs.jsonl --seconds 500   # goes on from there
    python conformance/benchmarks/bugs.py --count 100 --seed 1 --record bugs.jsonl --told          # judges nothing more

A seed draws faults of the catalogue, of every kind, and every fourth of them is a fault that shows at drawn sizes
alone; behind them come plain mistakes of no catalogue (`mistakes.py`). Each is one bug. Each is put all clauses at
float32, as `check` puts them. The first line is held against the bug, and against all cases of the run. Exit codes:
0 at least 90 % of those that fail are named truly, at least 95 % are told as one bug and no first line is contradicted,
1 fewer, 2 not all were judged yet.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported, as in the engine's workers

import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from attnspec.core.nouns import FAILURES, DType, Effort, Level
from attnspec.core.plan import FAULT, Plan, is_own
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import load_subject
from attnspec.faults.catalogue import CATALOGUE, fault_named
from attnspec.faults.sizes.families import FAMILIES
from attnspec.problems.problem import Recipe
from attnspec.record.codec import decode, encode
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import explain_bugs, likely_group, likely_words
from attnspec.report.likely_cause import LikelyCause
from attnspec.runner.session import prepared_environment
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.trials.compile import compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.trial import Trial
from boundaries import says
from held_against import Case, Posed, contradictions, posed_calls
from mistakes import TRUTHS

SPEC = load_spec()
CHECKS, REFUTATIONS = compile_spec(SPEC), read_refutations(SPEC)
NAMED, AS_ONE = 0.9, 0.95
"""The claim: so many of those that fail are named truly, and told as one."""

EVERY = 4
"""One in so many is a fault that shows at drawn sizes alone."""

MISTAKES = Path(__file__).parent / "mistakes.py"


@dataclass(frozen=True, slots=True)
class BugJudged:
    """One bug, and what the run makes of it: `must` clauses that fail, the cases of every clause that held, and the
    calls that those make of the case that fails.
    """

    target: str
    outcomes: tuple[Outcome, ...]
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calls: Mapping[str, tuple[Posed, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """The first line."""
        return likely_words(self.outcomes)

    @property
    def cause(self) -> LikelyCause | None:
        """What it is about."""
        first = likely_group(self.outcomes)
        return first.cause if first else None

    @property
    def bugs(self) -> int:
        """As how many bugs it is told; what nothing explains is no bug."""
        return sum(group.cause is not None for group in explain_bugs(self.outcomes))

    @property
    def is_one(self) -> bool:
        """Whether it is told as one bug at the most."""
        return self.bugs <= 1

    @property
    def is_named(self) -> bool:
        """Whether the first line names the bug, or the boundary that was planted."""
        if not is_own(self.target):
            return re.search(TRUTHS[self.target.rpartition(":")[2]], self.words) is not None
        name, cause = self.target.removeprefix(FAULT), self.cause
        if cause is None:
            return False
        if planted := fault_named(name).planted:
            return all(says(cause.sentence, term) for term in planted.terms)
        return cause.fault.partition("@")[0] == name or self._is_alike(name, cause.fault)

    def _is_alike(self, name: str, other: str) -> bool:
        """Whether another fault answers as this one does in all cases of the run that were put to faults."""
        told = [{like.fault for like in each.evidence.like if like.agreed == like.tried}
                for each in self.outcomes if each.evidence]
        return any(name in each for each in told) and all((name in each) is (other in each) for each in told)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the cases of the run contradict in the first line."""
        first = likely_group(self.outcomes)
        if first is None or first.cause is None:
            return ()
        failing = [Case(each.evidence.recipe, each.dtype, self.calls.get(each.clause, ()), each.clause,
                        each.evidence.begins)
                   for each in self.outcomes if each.evidence and each.evidence.recipe]
        passing = [Case(recipe, DType.FLOAT32, clause=clause) for clause, recipes in self.held.items()
                   for recipe in recipes]
        return tuple(contradictions(self.words, failing, passing))

    def as_line(self) -> str:
        """The record's line."""
        return json.dumps({"target": self.target, "outcomes": encode(self.outcomes), "held": encode(self.held),
                           "calls": encode(self.calls), "seconds": self.seconds})


def read_line(line: str) -> BugJudged:
    """A bug from the record's line."""
    told = json.loads(line)
    return BugJudged(told["target"], tuple(decode(Outcome, each) for each in told["outcomes"]),
                     {clause: tuple(recipes) for clause, recipes in told["held"].items()},
                     {clause: tuple(decode(Posed, each) for each in calls)
                      for clause, calls in told.get("calls", {}).items()}, told["seconds"])


def drawn_targets(count: int, seed: int) -> list[str]:
    """The bugs that a seed draws, the mistakes last: targets as `check` takes them."""
    dice = random.Random(seed)
    fixed = sorted(name for name, fault in CATALOGUE.items()
                   if fault.planted is None and DType.FLOAT32 not in fault.equivalents)
    names = dice.sample(fixed, min(count, len(fixed)))
    sized = [f"{dice.choice(sorted(FAMILIES))}@{dice.randrange(1, 10**6)}" for _ in names]
    drawn = [sized[at] if at % EVERY == EVERY - 1 else name for at, name in enumerate(names)]
    return [*(FAULT + name for name in drawn), *(f"{MISTAKES}:{name}" for name in TRUTHS)]


def judge_bug(target: str, effort: Effort, clauses: Sequence[str]) -> BugJudged:
    """Put one bug the clauses."""
    started, plan = time.process_time(), Plan((target,), dtypes=(DType.FLOAT32,), effort=effort)
    run = SubjectRun(load_subject(target, plan), plan, lambda _: None, lambda: CHECKS, lambda: REFUTATIONS)
    asked = [check for name, check in CHECKS.items() if not clauses or name in clauses]
    outcomes = [run.try_clause(check, DType.FLOAT32) for check in asked]
    failed = tuple(replace(each, evidence=replace(each.evidence, pictures=()) if each.evidence else None)
                   for each in outcomes if each.verdict in FAILURES and each.level is Level.MUST)
    held = {clause: tuple(recipe.text for recipe in recipes)
            for (clause, _), recipes in run.held_recipes.items()} if failed else {}
    return BugJudged(target, failed, held, {each.clause: _calls_of(each, run, plan) for each in failed},
                     time.process_time() - started)


def _calls_of(failed: Outcome, run: SubjectRun, plan: Plan) -> tuple[Posed, ...]:
    """The calls that a clause makes of the case that fails; none where it is not known which it is."""
    if failed.evidence is None or not failed.evidence.recipe:
        return ()
    check = CHECKS[failed.clause]
    trial = Trial(check, run.evaluator(failed.dtype), plan.effort, seed_of(plan.seed, check.domain), lambda _: None)
    return posed_calls(trial.scene(Recipe.parse(failed.evidence.recipe)))


def read_judged(record: Path | None) -> dict[str, BugJudged]:
    """The bugs that a record holds."""
    lines = record.read_text(encoding="utf-8").splitlines() if record and record.exists() else []
    return {each.target: each for each in map(read_line, lines)}


def table(every: Sequence[BugJudged]) -> Iterator[str]:
    """The figures of the claim."""
    failing = [each for each in every if each.outcomes]
    contradicted = [each for each in failing if each.contradictions]
    yield f"{len(failing)} of {len(every)} fail, of which"
    yield f"  named truly in the first line: {_share([each.is_named for each in failing])} (claimed: {NAMED:.0%})"
    yield f"  told as one bug: {_share([each.is_one for each in failing])} (claimed: {AS_ONE:.0%})"
    yield f"  contradicted by a case of the run: {len(contradicted)} (claimed: 0)"


def _share(those: Sequence[bool]) -> str:
    return f"{sum(those)} of {len(those)}, {sum(those) / max(1, len(those)):.1%}"


def is_borne_out(every: Sequence[BugJudged]) -> bool:
    """Whether the claim is."""
    failing = [each for each in every if each.outcomes]
    return (sum(each.is_named for each in failing) >= NAMED * len(failing)
            and sum(each.is_one for each in failing) >= AS_ONE * len(failing)
            and not any(each.contradictions for each in failing))


def line_of(judged: BugJudged) -> str:
    """What is said of one bug, with what is wrong about it."""
    marks = "".join((" " if judged.is_named else "N", " " if judged.is_one else str(min(judged.bugs, 9)),
                     "C" if judged.contradictions else " ")) if judged.outcomes else "-- "
    name = judged.target.removeprefix(FAULT).rpartition("/")[2]
    against = f" [{'; '.join(judged.contradictions)}]" if judged.contradictions else ""
    return f"{marks} {name}: {len(judged.outcomes)} failures, {judged.seconds:.0f} s. {judged.words}{against}"


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--count", default=100, show_default=True, help="Faults that are drawn.")
@click.option("--seed", default=1, show_default=True)
@click.option("--start", default=0, show_default=True, help="The first of them that is judged.")
@click.option("--effort", default="quick", type=click.Choice([each.value for each in Effort]), show_default=True)
@click.option("--clause", "clauses", multiple=True, help="Only these clauses. [default: all]")
@click.option("--seconds", default=0.0, help="Begin no further one after so many seconds. [default: no end]")
@click.option("--record", type=click.Path(path_type=Path), help="A file to which each is added; a run goes on.")
@click.option("--told", "is_told", is_flag=True, help="Judge nothing: say what this code makes of the record.")
def main(*, count: int, seed: int, start: int, effort: str, clauses: Sequence[str], seconds: float,
         record: Path | None, is_told: bool) -> None:
    """Judge, and say of each bug what was said of it."""
    targets, known, started = drawn_targets(count, seed)[start:], read_judged(record), time.monotonic()
    every = list[BugJudged]()
    with prepared_environment():
        for target in targets:
            if target not in known:
                if is_told or (seconds and time.monotonic() - started > seconds):
                    continue
                known[target] = judge_bug(target, Effort(effort), clauses)
                if record:
                    with record.open("a", encoding="utf-8") as lines:
                        lines.write(f"{known[target].as_line()}\n")
            every.append(known[target])
            click.echo(line_of(known[target]))
    for line in table(every):
        click.echo(line)
    raise SystemExit(2 if len(every) < len(targets) else not is_borne_out(every))


if __name__ == "__main__":
    main()
