"""How long each file of tests takes, as a whole and in the short suite, from one run of all tests:

    pytest -n 2 -m "" --durations=0 --durations-min=0.01 > whole.log
    python conformance/benchmarks/seconds_of_tests.py whole.log > table.md

The seconds are those of the run, setup and teardown with them; what of them the short suite takes is added up by the
names of its tests, which pytest lists (`--collect-only`). A machine that does other work takes longer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click

CHECKOUT = Path(__file__).resolve().parents[2]
_DURATION = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(conformance/tests/(\w+\.py)::.*?) *$", re.MULTILINE)


def read_durations(log: str) -> Iterator[tuple[str, str, float]]:
    """The id of each test, its file, and the seconds of one of its phases."""
    yield from ((name, file, float(seconds)) for seconds, name, file in _DURATION.findall(log))


def list_short_suite() -> frozenset[str]:
    """The ids of the tests that `pytest` runs by itself."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    return frozenset(line for line in listed.splitlines() if "::" in line)


def table_of(log: str, short: frozenset[str], shown: int) -> str:
    """Markdown: the files that take longest, and all together."""
    whole, kept = defaultdict[str, float](float), defaultdict[str, float](float)
    for name, file, seconds in read_durations(log):
        whole[file] += seconds
        kept[file] += seconds * (name in short)
    longest = sorted(whole, key=lambda file: -whole[file])
    rows = [(f"`{file}`", whole[file], kept[file]) for file in longest[:shown]]
    others, together = longest[shown:], sum(whole.values())
    rows += [(f"{len(others)} others", sum(whole[file] for file in others), sum(kept[file] for file in others)),
             ("together", together, sum(kept.values()))]
    lines = [f"| {name} | {seconds:.0f} | {short_ones:.0f} |"
             for name, seconds, short_ones in rows]
    return "\n".join(["| file | all tests, s | short suite, s |", "|---|---|---|", *lines])


@click.command(help=__doc__)
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option("--shown", default=25, show_default=True, help="So many files have a line of their own.")
def main(log: Path, shown: int) -> None:
    """Print the table."""
    click.echo(table_of(log.read_text(encoding="utf-8"), list_short_suite(), shown))


if __name__ == "__main__":
    main()
