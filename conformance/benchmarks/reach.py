"""How far attnspec reaches: of every public mistake, whether a fault makes it and which clause finds that fault.

python conformance/benchmarks/reach.py            # prints docs/reach.md
python conformance/benchmarks/reach.py --write    # writes it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from attnspec.core.nouns import DType, Level
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.fault import Outside
from attnspec.faults.mechanisms import BUGS
from attnspec.spec.clause import Refutations, Spec, read_refutations
from attnspec.spec.load import load_spec

DOCUMENT = Path(__file__).parents[2] / "docs" / "reach.md"
FOUND = "found"
NEEDS: Mapping[Outside, str] = {Outside.BACKWARD: "other gradients", Outside.TRAINING: "training"}
NO_MISTAKE = (Outside.CONVENTION, Outside.TASTE)

_INTRODUCTION = """\
# Reach

Each issue or pull request below reports or fixes a mistake in a published implementation of attention. It counts as
*found* if a fault of the catalogue makes the same mistake, and `must` clauses detect that fault at every dtype at which
it can be told from rounding ([the matrix](faults.md#which-clause-detects-which-fault)). What is about other gradients
than the faults get wrong, or shows in training alone, is counted apart. For the rest a reason stands in place of the
clause.

`python conformance/benchmarks/reach.py --write` writes this page from the catalogue and from `spec/refutations.json`.
"""


class Thread(NamedTuple):
    """A public thread. came: what came of it: found, what it would need, or a reason.  faults: each with a clause that
    finds it, and how many do.
    """

    mechanism: str
    link: str
    came: str
    faults: Mapping[str, tuple[str, int]]


def threads(law: Spec) -> Iterator[Thread]:
    """Every thread once, by mechanism."""
    demands = {clause.id for clause in law.clauses if clause.level is Level.MUST}
    matrix = read_refutations(law)
    detected = {name: faults for name, faults in matrix.convictions.items() if name in demands}
    matrix = replace(matrix, convictions=detected)
    for mechanism in sorted(BUGS):
        for link, made in BUGS[mechanism].items():
            if isinstance(made, Outside):
                yield Thread(mechanism, link, NEEDS.get(made, made.value), {})
                continue
            found = {name: clauses for name in made if (clauses := _found_by(name, matrix))}
            yield Thread(mechanism, link, FOUND if found else "no clause finds its fault at every dtype", found)


def _found_by(name: str, matrix: Refutations) -> tuple[str, int] | None:
    """The clause that finds the fault at the most dtypes and few others, and how many find it; None where one dtype at
    which it can be told is left.
    """
    clauses = matrix.of_fault(name)
    told = {dtype for dtype in DType if dtype not in CATALOGUE[name].equivalents}
    if not told <= {dtype for dtypes in clauses.values() for dtype in dtypes}:
        return None
    best = min(clauses, key=lambda clause: (-len(clauses[clause]), len(matrix.convictions[clause]), clause))
    return best, len(clauses)


def page(found: Sequence[Thread]) -> str:
    """The page in Markdown."""
    apart = [thread for thread in found if thread.came in NEEDS.values()]
    judged = [thread for thread in found if thread not in apart]
    hits = sum(thread.came == FOUND for thread in judged)
    needs = ", ".join(f"{count} need {what}" for what, count in Counter(thread.came for thread in apart).items())
    idle = sum(thread.came in {why.value for why in NO_MISTAKE} for thread in judged)
    head = (f"{len(found)} threads: {needs}. Of the other {len(judged)}, **{hits} are found "
            f"({100 * hits / len(judged):.0f} %)**. {idle} of those that are not found tell of a documented choice, a "
            f"caller's mistake or roundings; of the {len(judged) - idle} that tell of a mistake, {hits} are found "
            f"({100 * hits / (len(judged) - idle):.0f} %).")
    rows = ["| mechanism | thread | found by | faults, with the clauses that find each |", "|---|---|---|---|"]
    return "\n".join([_INTRODUCTION, head, "", *_reasons(judged), "", *rows, *map(_row, found), ""])


def _reasons(judged: Sequence[Thread]) -> Iterator[str]:
    counts = Counter(thread.came for thread in judged if thread.came != FOUND)
    yield from ("| threads | not found, because |", "|---|---|")
    yield from (f"| {count} | {reason} |" for reason, count in counts.most_common())


def _row(thread: Thread) -> str:
    *_, library, _, number = thread.link.split("/")
    first = next(iter(thread.faults.values()), ("", 0))[0]
    by = f"`{first}`" if first else thread.came if thread.came not in NEEDS.values() else f"needs {thread.came}"
    faults = ", ".join(f"`{name}` ({count})" for name, (_, count) in thread.faults.items())
    return f"| {thread.mechanism} | [{library} {number}]({thread.link}) | {by} | {faults or 'none'} |"


def generate_page() -> str:
    """The page for the catalogue and the spec of this checkout."""
    return page(list(threads(load_spec())))


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--write", is_flag=True, help="Write docs/reach.md.")
def reach(write: bool) -> None:
    """Print it, or put it in its place."""
    if write:
        DOCUMENT.write_text(generate_page(), encoding="utf-8")
    click.echo(f"wrote {DOCUMENT}" if write else generate_page())


if __name__ == "__main__":
    reach()
