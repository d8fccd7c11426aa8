"""What `check` says of single bugs: how many it makes of one, whether it names the true one, what its cases contradict.

    python conformance/benchmarks/bugs.py --count 60 --seed 1

Faults of the catalogue are drawn by a seed: each is one bug. Each is put all clauses at float32, as a function
of a user's is, and what is said of its failures is held against the fault and against the cases that
failed. Exit codes: 0 at most one in twenty is told as several and nothing is contradicted, 1 more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click
from attnspec.core.nouns import FAILURES, DType, Effort, Kind, Level
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import fault_subject
from attnspec.problems.recipe import Recipe
from attnspec.record.boundaries import spans
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import explanations, likely, likely_words
from attnspec.spec.load import load_spec
from attnspec.spec.refutations import read_refutations
from attnspec.trials.compile import compile_spec

SPEC = load_spec()
CHECKS, REFUTATIONS = compile_spec(SPEC), read_refutations(SPEC)
MOST_TOLD_AS_SEVERAL = 0.05


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of one fault."""

    fault: str
    failures: int
    bugs: int
    unexplained: int
    first: str
    words: str
    contradictions: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the first cause is the fault itself."""
        return self.first.partition("@")[0] == self.fault


def describe_fault(fault: str, effort: Effort, clauses: Sequence[str]) -> Told:
    """Judge one fault."""
    started = time.process_time()
    run = SubjectRun(fault_subject(f"fault/{fault}"), Plan((f"fault/{fault}",), effort=effort), lambda _: None,
                     lambda: CHECKS, lambda: REFUTATIONS)
    asked = [check for name, check in CHECKS.items() if not clauses or name in clauses]
    outcomes = [run.try_clause(check, DType.FLOAT32) for check in asked]
    failed = [each for each in outcomes if each.verdict in FAILURES and each.level is Level.MUST]
    groups, first = explanations(failed), likely(failed)
    known = [group for group in groups if group.cause]
    cause = first.cause if first else None
    return Told(fault, len(failed), len(known), sum(len(group.failures) for group in groups if not group.cause),
                cause.fault if cause else "", likely_words(failed),
                sum(_is_contradicted(group.cause.says, group.failures) for group in known if group.cause),
                time.process_time() - started)


def _is_contradicted(says: str, failures: Sequence[Outcome]) -> bool:
    """Whether a case that failed has lengths at which the cause says that nothing fails."""
    cases = [Recipe.parse(each.evidence.recipe).sizes.by_axis for each in failures
             if each.evidence and each.evidence.recipe]
    return any(not span.low <= sizes.get(span.axis[:1], span.low) <= (span.high or 2**31)
               for span in spans(says) for sizes in cases)


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--count", default=60, show_default=True, help="Faults that are drawn.")
@click.option("--seed", default=1, show_default=True)
@click.option("--effort", default="quick", type=click.Choice([each.value for each in Effort]), show_default=True)
@click.option("--clause", "clauses", multiple=True, help="Only these clauses. [default: all]")
@click.option("--seconds", default=0.0, help="Draw no further fault after so many seconds. [default: no end]")
def main(count: int, seed: int, effort: str, clauses: Sequence[str], seconds: float) -> None:
    """Judge, and say of each fault what was said of it."""
    names = sorted(name for name, fault in CATALOGUE.items() if fault.kind is Kind.ATTENTION)
    started, every = time.monotonic(), list[Told]()
    for name in random.Random(seed).sample(names, min(count, len(names))):
        if seconds and time.monotonic() - started > seconds:
            break
        every.append(each := describe_fault(name, Effort(effort), clauses))
        click.echo(f"{each.fault}: {each.failures} failures, {each.bugs} bugs, {each.unexplained} unexplained, "
                   f"{each.contradictions} contradicted, {each.seconds:.0f} s. {each.words}")
    failing = [each for each in every if each.failures]
    several = sum(each.bugs > 1 for each in failing)
    contradicted = sum(each.contradictions for each in failing)
    right = sum(each.is_right for each in failing)
    click.echo(f"{len(failing)} of {len(every)} fail; {several} told as several bugs; {right} named first; "
               f"{contradicted} causes contradicted by their own cases")
    raise SystemExit(several > MOST_TOLD_AS_SEVERAL * len(failing) or contradicted > 0)


if __name__ == "__main__":
    main()
