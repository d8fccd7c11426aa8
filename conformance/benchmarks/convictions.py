"""Two records of power, conviction by conviction: is every subject convicted by the same clause after as many cases?

    python -m evaluation power --effort quick --record now.jsonl
    python conformance/benchmarks/convictions.py reports/power/quick.jsonl now.jsonl

`python -m evaluation power --against` asks whether any fault escapes; this asks whether anything is different, as
after a change that should change nothing. It reads the lines themselves, not through attnspec. Exit codes: 0 all the
same, 1 something differs (each difference is named), 2 a record cannot be read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

Key = tuple[str, str, int, str]  # subject, dtype, seed, rule
Verdicts = Mapping[Key, Mapping[str, Any]]
ASKED = ("convicted", "clause", "cases")


def read(path: Path) -> Verdicts:
    """What each rule said of each subject. Raises UsageError."""
    packed = path.read_bytes()
    try:
        text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode()
        puts = [event for event in map(json.loads, text.splitlines()) if event["event"] == "subject_put"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{path} is no record of `python -m evaluation power`: {error}") from error
    return {(put["subject"], put["dtype"], put["seed"], said["rule"]): said
            for put in puts for said in put.get("convictions", ())}


def differences(before: Verdicts, now: Verdicts, asked: tuple[str, ...] = ASKED) -> Iterator[str]:
    """Each verdict that differs, and how. Only what both records hold is compared."""
    for key in before.keys() & now.keys():
        was, is_now = (tuple(said.get(name, _ABSENT[name]) for name in asked) for said in (before[key], now[key]))
        if was != is_now:
            subject, dtype, seed, rule = key
            told = ", ".join(f"{name} {old!r} is now {new!r}"
                             for name, old, new in zip(asked, was, is_now, strict=True) if old != new)
            yield f"{subject} {dtype} seed {seed}, {rule}: {told}"


# a record leaves out what has its default
_ABSENT: Mapping[str, object] = {"convicted": False, "clause": "", "cases": 0, "problems": 0}


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.argument("before", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("now", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--rule", default="", help="Only this rule. [default: all; the suite itself is `attnspec`]")
@click.option("--problems", is_flag=True, help="Compare the number of problems tried before a conviction, too.")
@click.option("--whole", is_flag=True, help="What only one record holds is a difference, too.")
def compare(before: Path, now: Path, rule: str, *, problems: bool, whole: bool) -> None:
    """Name what differs."""
    was, is_now = ({key: said for key, said in read(path).items() if not rule or key[-1] == rule}
                   for path in (before, now))
    if not was.keys() & is_now.keys():
        raise click.UsageError("the records have no verdict in common: does each measure power?")
    found = sorted(differences(was, is_now, (*ASKED, "problems") if problems else ASKED))
    alone = sorted(was.keys() ^ is_now.keys())
    click.echo("\n".join([*found, *(f"in one record only: {' '.join(map(str, key))}" for key in alone if whole)]))
    click.echo(f"{len(was.keys() & is_now.keys())} verdicts compared, {len(found)} differ; "
               f"{len(alone)} in one record only")
    raise SystemExit(1 if found or (whole and alone) else 0)


if __name__ == "__main__":
    compare()
