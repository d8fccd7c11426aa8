"""The kinds of mistakes that once got through: functions of each, which must fail, beside right ones that must not.

    python conformance/benchmarks/kinds.py                                   # ten seeds, at float32 and float16
    python conformance/benchmarks/kinds.py --seeds 2 --only 'pages.py:*' --details

The functions are in `kinds/`, written as users write them. Each is judged from outside, as `attnspec check --effort
quick` does. A wrong one is let go once a clause has failed at each dtype, and its failure is made small and explained
at the first seed alone; a right one is put all of them. Exit codes: 0 every wrong one fails at every seed and dtype,
and no right one does, 1 otherwise.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import click
import yaml
from attnspec.core.nouns import DType, Effort, does_gate_run
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import load_subject
from attnspec.hosting.client import close_all
from attnspec.ranking.jobs import clearest_first
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import likely_words
from attnspec.runner.session import prepared_environment
from attnspec.spec.clause import read_refutations
from attnspec.trials.evaluator import Archives

FOLDER = Path(__file__).parent / "kinds"
DTYPES = DType.FLOAT32, DType.FLOAT16
SEEDS_OF_RIGHT = 3


@dataclass(frozen=True, slots=True)
class Posed:
    """A function that is judged, `pages.py:pages_in_a_byte`. is_strict: recommended clauses count, too."""

    kind: str
    function: str
    is_right: bool
    is_strict: bool

    @property
    def target(self) -> str:
        """As `attnspec check` takes it."""
        return str(FOLDER / self.function)

    @property
    def seeds(self) -> int:
        """The most seeds that it is judged at."""
        return SEEDS_OF_RIGHT if self.is_right else 10


def posed_functions() -> Iterator[Posed]:
    """The functions of `kinds/kinds.yaml`: the wrong ones of each kind, and the right ones beside them."""
    told = yaml.safe_load((FOLDER / "kinds.yaml").read_text("utf-8"))
    rights: dict[tuple[str, bool], Posed] = {}
    for entry in told:
        is_strict = entry.get("strict", False)
        for name in entry["wrong"]:
            yield Posed(entry["kind"], f"{entry['file']}:{name}", is_right=False, is_strict=is_strict)
        right = f"{entry['file']}:{entry['right']}"
        rights.setdefault((right, is_strict), Posed(entry["kind"], right, is_right=True, is_strict=is_strict))
    yield from rights.values()


@dataclass(frozen=True, slots=True)
class Judged:
    """A function at one seed: the outcomes that fail."""

    posed: Posed
    seed: int
    failing: Sequence[Outcome]
    seconds: float

    def fails(self, dtype: DType) -> bool:
        """Whether it fails at this dtype."""
        return any(each.dtype is dtype for each in self.failing)

    @property
    def is_as_it_should(self) -> bool:
        """Whether a wrong one fails at each dtype, and a right one at none."""
        return not self.failing if self.posed.is_right else all(map(self.fails, DTYPES))

    @property
    def words(self) -> str:
        """The likely cause, as the first line of a check says it, or the failing clause."""
        if not self.failing:
            return "Conforms."
        first = self.failing[0]
        return likely_words(self.failing) or f"{first.clause}: {first.reason}".partition("\n")[0]


class BriefRun(SubjectRun):
    """A run in which what fails is not made small, and nobody asks for its cause."""

    @property
    def _has_enough_diagnoses(self) -> bool:
        return True


class Judge:
    """Judges functions at one seed. What is known of problems is kept for the next function.

    clauses: by function, those that failed at other seeds, which are tried first.
    """

    def __init__(self, seed: int, functions: Sequence[Posed], clauses: dict[str, list[str]]) -> None:
        targets = tuple(dict.fromkeys(each.target for each in functions))
        self._plan = Plan(targets, effort=Effort.QUICK, seed=seed, dtypes=DTYPES)
        self._engine, self._archives, self._clauses = Engine(self._plan), Archives(), clauses
        self._refutations = read_refutations(self._engine.spec)

    def judge(self, posed: Posed) -> Judged:
        """The function at this seed."""
        began, failing, run = time.perf_counter(), list[Outcome](), self._run(posed)
        for item in self._likely_first(posed):
            if not posed.is_right and any(item.dtype == each.dtype.value for each in failing):
                continue
            run.subject.callee.begin_item()
            outcome = run.with_incidents(run.try_clause(self._engine.checks[item.clause], DType(item.dtype)))
            if does_gate_run(outcome.verdict, outcome.level, strict=posed.is_strict):
                failing.append(outcome)
        close_all()
        known = self._clauses.setdefault(posed.function, [])
        known += [each.clause for each in failing if each.clause not in known]
        return Judged(posed, self._plan.seed, failing, time.perf_counter() - began)

    def _run(self, posed: Posed) -> SubjectRun:
        is_known = posed.function in self._clauses
        run = (BriefRun if is_known else SubjectRun)(
            load_subject(posed.target, self._plan), self._plan, lambda _: None, lambda: self._engine.checks,
            lambda: self._refutations)
        run.archives = self._archives
        return run

    def _likely_first(self, posed: Posed) -> Iterable[Item]:
        known = self._clauses.get(posed.function, [])
        return sorted(clearest_first(self._engine.items_of(posed.target)), key=lambda item: item.clause not in known)


def table(every: Sequence[Judged]) -> Iterator[str]:
    """What was judged, in Markdown: of each function at how many seeds it fails, and what is said at the first."""
    yield f"| kind | function | {' | '.join(f'fails at {dtype.value}' for dtype in DTYPES)} | said first |"
    yield f"|---|---|{'---|' * len(DTYPES)}---|"
    for posed in dict.fromkeys(each.posed for each in every):
        mine = [each for each in every if each.posed == posed]
        counts = (f"{sum(each.fails(dtype) for each in mine)} of {len(mine)}" for dtype in DTYPES)
        name = f"{posed.function}{' (right)' if posed.is_right else ''}{' (strict)' if posed.is_strict else ''}"
        yield f"| {posed.kind} | {name} | {' | '.join(counts)} | {mine[0].words} |"


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.option("--seeds", default=10, show_default=True, help="How many seeds, from 0; right functions have three.")
@click.option("--first", default=0, show_default=True, help="Begin at this seed.")
@click.option("--only", default="*", show_default=True, help="Functions that are like this one: 'pages.py:*'.")
@click.option("--wrong/--right", "is_wrong", default=None, help="The wrong ones, or the right ones, alone.")
@click.option("--details", is_flag=True, help="Show every failing clause.")
def kinds(seeds: int, first: int, only: str, *, is_wrong: bool | None, details: bool) -> None:
    """Judge every function at every seed."""
    functions = [each for each in posed_functions() if fnmatchcase(each.function, only)
                 and is_wrong in {None, not each.is_right}]
    every, clauses = list[Judged](), dict[str, list[str]]()
    with prepared_environment():
        for seed in range(first, first + seeds):
            judge = Judge(seed, functions, clauses)
            for posed in functions:
                if seed - first >= posed.seeds:
                    continue
                every.append(each := judge.judge(posed))
                mark = "" if each.is_as_it_should else "  <- "
                failing = " ".join(f"{one.clause}@{one.dtype.value}" for one in each.failing)
                click.echo(f"seed {seed} {posed.function} {each.seconds:.0f} s: {failing or 'conforms'}{mark}")
                if details:
                    click.echo("".join(f"    {one.clause} {one.dtype.value}: {one.reason}\n" for one in each.failing))
    click.echo("\n".join(["", *table(every)]))
    missed = [each for each in every if not each.is_as_it_should]
    click.echo(f"\n{len(every) - len(missed)} of {len(every)} as they should be")
    sys.exit(bool(missed))


if __name__ == "__main__":
    kinds()
