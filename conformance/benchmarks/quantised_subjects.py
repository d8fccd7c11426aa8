"""A verdict for each subject that takes or stores codes, and what it does where such subjects differ.

    python conformance/benchmarks/quantised_subjects.py --record reports/quantised/subjects.jsonl
    python conformance/benchmarks/quantised_subjects.py --record reports/quantised/subjects.jsonl --table

It goes on where it was stopped. Subjects whose library is not installed are left out; run it in several environments to
join their libraries in one record. Conventions are found by calling the subject, never read from its manifest
(`quantised_conventions.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from attnspec.core.declaration import Declaration
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects
from attnspec.subjects.subject import Subject
from processor_seconds import children_seconds
from quantised_conventions import find_conventions

ARRAYS = ("query", "key", "value")
BESIDE = {"transformers": "torch optimum-quanto hqq", "torchao": "torch"}
"""What else decides what a library answers; its version stands in the record where it is installed."""

_INSIDE = ", made inside"
_PASSES = re.compile(r"an error of one entry passes (up to .*?) \(")
_HELD = re.compile(r"^\S+: (\d+ of \d+ applicable items? held.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one subject.

    stored: what it takes or stores, by array.  passes: how large an error passes, where it quantises inside.
    held: how many clauses held.  seconds: of processor, for the check.
    conventions: the answer by the name of the question.
    """

    subject: str
    title: str
    versions: Mapping[str, str]
    stored: Mapping[str, str]
    ended: int
    verdict: str
    held: str
    passes: str
    seconds: float
    conventions: Mapping[str, str] = field(default_factory=dict)


def stored_by(declaration: Declaration) -> dict[str, str]:
    """By array, the format of codes and who shares a scale: of those handed over, or of those made inside."""
    limits = declaration.limits
    handed = {name: f"{storage} by {getattr(limits, f'{name}_scales') or 'any'}"
              for name in ARRAYS if (storage := getattr(limits, f"stored_{name}"))}
    inside = {word.removeprefix("stored_"): f"{text}{_INSIDE}" for declared in declaration.precision.values()
              for word, text in declared.items() if word.startswith("stored_")}
    takes_any = {"key": "any", "value": "any"} if "key_scale" in declaration.keywords else {}
    return {**takes_any, **handed, **inside}


def judge(registered: Registered, effort: str, limit: float) -> Judged | None:
    """The verdict of a check in a process of its own, and the conventions; None where the subject knows no codes."""
    loaded = load_subject(registered.id, Plan((registered.id,)))
    if not (stored := stored_by(loaded.declaration)):
        return None
    before, library = children_seconds(), registered.library
    ended, output = _check(registered.id, effort, limit)
    seconds = children_seconds() - before
    first = next((line for line in output.splitlines() if line.startswith(("Conforms", "Does not conform"))), "")
    held, passes = _HELD.search(output), _PASSES.search(output)
    beside = {name: found for name in BESIDE.get(library.folder, "").split() if (found := _version(name))}
    return Judged(registered.id, registered.title, {library.distribution or library.name: library.version, **beside},
                  stored, ended, first or output.strip()[-300:], held[1] if held else "", passes[1] if passes else "",
                  round(seconds, 1), _conventions(loaded))


def _conventions(subject: Subject) -> dict[str, str]:
    """What it does where such subjects differ, at float32 if it takes that."""
    dtypes = subject.declaration.dtypes
    return find_conventions(subject, DType.FLOAT32 if DType.FLOAT32 in dtypes else dtypes[0])


def _check(subject: str, effort: str, limit: float) -> tuple[int, str]:
    """The exit code and the output of a check; 124 where it took longer than the limit."""
    command = [sys.executable, "-m", "attnspec", "check", subject, "--effort", effort, "-n", "1", "--no-record"]
    try:
        ended = subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}, text=True, timeout=limit,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return 124, f"no verdict within {limit:.0f} s"
    return ended.returncode, ended.stdout


def _version(distribution: str) -> str:
    """The installed version; empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def read_judged(path: Path) -> dict[str, Judged]:
    """The rows of a record by subject."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["subject"]: Judged(**row) for row in map(json.loads, lines)}


def show_table(rows: Sequence[Judged]) -> str:
    """Two tables in Markdown: of codes that are handed over, and of codes that are made inside."""
    return "\n\n".join(_one_table([row for row in rows if makes_codes(row) is inside]) for inside in (False, True))


def makes_codes(row: Judged) -> bool:
    """Whether a subject makes codes itself of what it is handed."""
    return any(text.endswith(_INSIDE) for text in row.stored.values())


def _one_table(rows: Sequence[Judged]) -> str:
    answers = [_join_arrays(row.conventions) for row in rows]
    questions = list(dict.fromkeys(name for each in answers for name in each))
    head = ["subject", "version", "codes of keys; values", "verdict", "s", *questions]
    lines = [head, ["---"] * len(head)]
    for row, each in zip(rows, answers, strict=True):
        key, value = (row.stored.get(name, "").removesuffix(_INSIDE) for name in ("key", "value"))
        verdict = {0: "conforms", 1: "**fails**", 124: "none in time"}.get(row.ended, "not judged")
        lines.append([f"`{row.subject}`", _show_versions(row.versions), _join(key, value), verdict,
                      f"{row.seconds:.0f}", *(each.get(name, "") for name in questions)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _show_versions(versions: Mapping[str, str]) -> str:
    """The version of a library; with their names, those of several."""
    if len(versions) == 1:
        return next(iter(versions.values()))
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _join_arrays(conventions: Mapping[str, str]) -> dict[str, str]:
    """Answers about keys and about values as one, by the question without the name of the array."""
    joined = {}
    for name, answer in conventions.items():
        if name.startswith("key ") or name.endswith(" key"):
            other = name.replace("key", "value")
            joined[name.replace("key", "").strip()] = _join(answer, conventions.get(other, answer))
        elif name.replace("value", "key") not in conventions or "value" not in name:
            joined[name] = answer
    return joined


def _join(key: str, value: str) -> str:
    return key if key == value else f"{key}; {value}"


@click.command(help=__doc__)
@click.option("--record", type=click.Path(path_type=Path), required=True, help="Where a line for each subject goes.")
@click.option("--only", default="*", help="Only subjects whose id matches.")
@click.option("--effort", default="quick")
@click.option("--limit", default=900.0, help="Seconds that a check may take.")
@click.option("--again", is_flag=True, help="Judge those that stand in the record, too.")
@click.option("--conventions", "asks_only", is_flag=True, help="Judge nothing; ask those of the record again.")
@click.option("--table", "shows_table", is_flag=True, help="Judge nothing; print the tables of the record.")
def main(record: Path, only: str, effort: str, limit: float, *, again: bool, asks_only: bool,
         shows_table: bool) -> None:
    """Judge what is installed, and write the record after each subject."""
    rows = read_judged(record)
    if shows_table:
        click.echo(show_table([rows[name] for name in sorted(rows)]))
        return
    for name, registered in registered_subjects().items():
        if not fnmatchcase(name, only) or (name in rows) > (again or asks_only) or _is_out(registered):
            continue
        if asks_only and name not in rows:
            continue
        row = (replace(rows[name], conventions=_conventions(load_subject(name, Plan((name,))))) if asks_only
               else judge(registered, effort, limit))
        if row:
            rows[name] = row
            click.echo(f"{name}: {row.verdict} ({row.seconds:.0f} s) {row.conventions}")
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text("".join(f"{json.dumps(asdict(rows[each]))}\n" for each in sorted(rows)))


def _is_out(registered: Registered) -> bool:
    """Whether a subject cannot be judged here, or says nothing of codes."""
    declared = registered.declaration
    knows_codes = "quantised" in registered.declaration.claims or stored_by(declared)
    return bool(not knows_codes or registered.why_missing or registered.device not in ("", "cpu"))


if __name__ == "__main__":
    main()
