"""A verdict for attention classes of installed libraries that no manifest knows: `attnspec init`, then `check`.

    python conformance/benchmarks/init_libraries.py --record libraries.jsonl         # all; goes on where it was stopped
    python conformance/benchmarks/init_libraries.py --only 'timm.*' --init-only --again
    python conformance/benchmarks/init_libraries.py --record libraries.jsonl --table libraries.md --count 0 --summary

The classes stand in `library_classes.py`, with what each of them is by its source. None is helped: `init` is handed a
path and nothing else. Each is judged in a folder of its own, by commands with a time limit.

- judged: `check` says that it conforms, or that it fails, and this is true.
- judged in part: the same, and `init` names what is not judged, or what it has switched off.
- refused: `init` writes nothing and says why.
- wrong: a verdict that is false: one that fails and was never proven to (`LibraryClass.fails`), or that conforms though
  it is no attention.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from library_classes import CLASSES, LibraryClass, Truth

_NEXT = re.compile(r"^Next: attnspec (check .*)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_CLAUSE = re.compile(r"^(\S+\.\S+) \(\S+\) is violated$", re.MULTILINE)
_PARTLY = ("NOT JUDGED", "NOT TRIED", "WITHOUT ", "is left out", "Switched off")
"""What a line of `init` says of a class that is not judged as a whole."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one class. ended: the exit codes of `init` and `check`.  said: the lines of `init` before what it
    wrote, or the reason for its refusal.  first: the first line of the verdict.  clauses: those that are violated.
    has_crashed: whether one of the two printed a traceback of its own.
    """

    target: str
    version: str
    ended: tuple[int, int]
    seconds: tuple[float, float]
    said: Sequence[str] = ()
    first: str = ""
    clauses: Sequence[str] = ()
    has_crashed: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether something of it is not judged, and `init` says so."""
        return any(mark in line for line in self.said for mark in _PARTLY)


def outcome_of(row: LibraryClass, tried: Tried) -> str:
    """In which line of the table it counts."""
    of_init, of_check = tried.ended
    if 124 in tried.ended:
        return "timeout"
    if of_init:
        return "refused" if of_init in (1, 2) and not tried.has_crashed else "crash"
    if of_check not in (0, 1):
        return "crash" if tried.has_crashed else "not judged"
    is_false = (not row.fails) if of_check else row.truth is Truth.OTHER
    if is_false:
        return "WRONG"
    judged = "conforms" if of_check == 0 else "fails"
    return f"{judged}, in part" if tried.is_partial else judged


def run_command(arguments: Sequence[str], folder: Path, limit: float) -> tuple[int, str, float]:
    """Exit code, output and seconds of attnspec with these arguments."""
    environment: Mapping[str, str] = {"OMP_NUM_THREADS": "1", **os.environ}
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "attnspec", *arguments], cwd=folder, env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
        return 124, f"{output}\nno answer within {limit:.0f} s", time.monotonic() - begun
    return process.returncode, output, time.monotonic() - begun


def version_of(distribution: str) -> str:
    """The installed version; empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def try_class(row: LibraryClass, folder: Path, limit: float, options: Sequence[str], *, init_only: bool) -> Tried:
    """`init` in this folder, then the command that it prints; what they print is kept in two files there."""
    code, output, seconds = run_command(["init", row.target, "--deadline", str(round(limit))], folder, limit + 30)
    (folder / "init.txt").write_text(output, encoding="utf-8")
    said = tuple(output.partition("\nwrote ")[0].splitlines()) if code == 0 else tuple(output.splitlines()[-1:])
    blank = Tried(row.target, version_of(row.distribution), (code, 0), (round(seconds, 1), 0.0), said,
                  has_crashed=_TRACEBACK in output)
    printed = _NEXT.search(output)
    if code or printed is None or init_only:
        return blank
    code, output, more = run_command([*printed[1].split(), *options, "--no-record"], folder, limit)
    (folder / "check.txt").write_text(output, encoding="utf-8")
    first = next((line for line in output.splitlines() if line.startswith(("Conforms", "Does not conform"))), "")
    return replace(blank, ended=(0, code), seconds=(round(seconds, 1), round(more, 1)), first=first,
                   clauses=tuple(_CLAUSE.findall(output)), has_crashed=code not in (0, 1) and _TRACEBACK in output)


def read_record(path: Path) -> dict[str, Tried]:
    """What was tried before; the later of two lines counts."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {line["target"]: Tried(**{**line, "ended": tuple(line["ended"]), "seconds": tuple(line["seconds"])})
            for line in map(json.loads, lines)}


def table_of(tried: Mapping[str, Tried]) -> Iterator[str]:
    """The lines of a Markdown table, with the counts above it."""
    rows = [row for row in CLASSES if row.target in tried]
    counts = Counter(outcome_of(row, tried[row.target]) for row in rows)
    yield f"{len(rows)} classes: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    yield ""
    yield "| class | version | it is | outcome | what is said | seconds |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        one = tried[row.target]
        said = one.first or " ".join(one.said[-1:])
        yield "| " + " | ".join(_cell(text) for text in (
            f"`{row.target}`", f"{row.distribution} {one.version}", row.says or row.truth.value, outcome_of(row, one),
            said, ", ".join(f"{each:.0f}" for each in one.seconds))) + " |"


_COLUMNS = ("conforms", "conforms, in part", "fails", "fails, in part", "refused", "timeout", "WRONG")


def summary_of(tried: Mapping[str, Tried]) -> Iterator[str]:
    """The lines of a Markdown table with one row for each library, and below it each class that does not conform, with
    the reason.
    """
    rows = [row for row in CLASSES if row.target in tried]
    outcomes = {row.target: outcome_of(row, tried[row.target]) for row in rows}
    shown = [column for column in _COLUMNS if column in outcomes.values()]
    shown += sorted(set(outcomes.values()) - set(shown))
    yield f"| library | classes | {' | '.join(shown)} |"
    yield "|---|---|" + "---|" * len(shown)
    for distribution in (*dict.fromkeys(row.distribution for row in rows), ""):
        own = [row for row in rows if distribution in ("", row.distribution)]
        counts = Counter(outcomes[row.target] for row in own)
        name = f"{distribution} {tried[own[0].target].version}" if distribution else "all"
        yield f"| {name} | {len(own)} | {' | '.join(str(counts[column] or '') for column in shown)} |"
    yield ""
    for row in rows:
        if not outcomes[row.target].startswith("conforms"):
            yield f"- {outcomes[row.target]}: `{row.target}`: {row.fails or row.says or 'see the record'}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


@click.command(help=__doc__)
@click.option("--record", type=click.Path(path_type=Path), default=Path("init_libraries.jsonl"), show_default=True)
@click.option("--table", type=click.Path(path_type=Path), help="Write the Markdown table here.")
@click.option("--summary", is_flag=True, help="One row for each library, and each class that does not conform.")
@click.option("--into", type=click.Path(path_type=Path), help="Keep the folders here.")
@click.option("--effort", type=click.Choice(["glance", "quick"]), default="glance", show_default=True)
@click.option("--limit", type=float, default=180.0, show_default=True, help="Seconds that one command may take.")
@click.option("--count", type=int, help="At most so many.")
@click.option("--only", multiple=True, help="Only classes that this pattern matches.")
@click.option("--init-only", is_flag=True, help="Run no check.")
@click.option("--again", is_flag=True, help="Also those that are in the record.")
def main(*, record: Path, table: Path | None, summary: bool, into: Path | None, effort: str, limit: float,
         count: int | None, only: Sequence[str], init_only: bool, again: bool) -> None:
    """Try each, and write what became of it."""
    tried = read_record(record)
    rows = [row for row in CLASSES if not only or any(fnmatchcase(row.target, pattern) for pattern in only)]
    rows = [row for row in rows if (again or row.target not in tried) and version_of(row.distribution)][:count]
    options = ["--effort", effort, "--dtype", "float32", "-n", "1"]
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            folder = (into or Path(scratch)) / row.target.replace(":", "_")
            folder.mkdir(parents=True, exist_ok=True)
            one = tried[row.target] = try_class(row, folder, limit, options, init_only=init_only)
            with record.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(one)) + "\n")
            click.echo(f"{outcome_of(row, one):18} {row.target} ({one.seconds[0]:.0f} s, {one.seconds[1]:.0f} s) "
                       f"{one.first}")
    if table is not None:
        table.write_text("\n".join((summary_of if summary else table_of)(tried)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
