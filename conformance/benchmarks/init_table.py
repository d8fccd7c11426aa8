"""A verdict for layers and kernels as people write them: `attnspec init`, then the command that it prints.

    python conformance/benchmarks/init_table.py --record table.jsonl                 # all; goes on where it was stopped
    python conformance/benchmarks/init_table.py --start 10 --count 5 --dtype float32
    python conformance/benchmarks/init_table.py --only 'flax_layers:*' --half wrong --effort glance
    python conformance/benchmarks/init_table.py --record table.jsonl --table table.md --count 0

The targets stand in `layers_by_hand/`, each right, and with one plain mistake (`layers_by_hand/rows.py`). Each is put
into a folder of its own, and judged as a user would: nothing is said but what `init` and `check` say. The verdict of a
right one is right if it conforms; that of a wrong one if it is violated and a named cause says what the mistake is.
Glance looks for no causes; then the first replay line that it prints is run, too.
A right one of which something was never tried, as the first line says, is judged in part.
A parameter that is neither in the adapter's call nor named by `init` is lost silently.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import click
from layers_by_hand.rows import ROWS, Row
from processor_seconds import children_seconds

SOURCES = Path(__file__).resolve().parent / "layers_by_hand"
HALVES = ("right", "wrong")
LIMIT = 900.0
"""Seconds that one command may take."""

_NEXT = re.compile(r"^Next: attnspec (check .*)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Does not conform\..*|  (?:like|begins|wrong|where|needs): .*|        or .*)$", re.MULTILINE)
_CLAUSE = re.compile(r"^(\S+\.\S+) \(\S+\) is violated$|^  says: (.*)$", re.MULTILINE)
_UNJUDGED = re.compile(r"^(?:Conforms|Does not conform)[^\n]*?; ([^;\n:.]*) (?:was|were) never tried", re.MULTILINE)
_AGAIN = re.compile(r"Effort glance does not look for causes.*?^  again: attnspec (replay [^\n]*)$",
                    re.MULTILINE | re.DOTALL)
_WROTE = "wrote "
"""What the line begins with before which `init` says what it found."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one target. said: `init`'s notes.  causes: the lines of `check` that name a cause.  clauses: the
    violated clauses that are shown, with what they say.  unjudged: what the first line names as never tried.  lost:
    parameters that nothing names.  init_processor: seconds of processor that `init` took, with what it started:
    how long it takes where nothing else runs.
    """

    target: str
    half: str
    verdict: str
    init_seconds: float
    check_seconds: float
    command: str
    said: Sequence[str] = ()
    causes: Sequence[str] = ()
    clauses: Sequence[str] = ()
    unjudged: str = ""
    lost: Sequence[str] = ()
    init_output: str = ""
    check_output: str = ""
    init_processor: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the verdict is what it should be, and nothing is lost silently."""
        wanted = "conforms" if self.half == "right" else "violated, cause named"
        return self.verdict == wanted and not self.lost


def source_of(row: Row, half: str) -> str:
    """The file of this target. The wrong half differs by one exchange, in the target's own code if it stands there."""
    text = (SOURCES / row.file).read_text(encoding="utf-8")
    if half == "right":
        return text
    own = next(node for node in ast.parse(text).body
               if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == row.name)
    lines = text.splitlines(keepends=True)
    before, inside, after = ("".join(part) for part in (
        lines[:own.lineno - 1], lines[own.lineno - 1:own.end_lineno], lines[own.end_lineno:]))
    if row.right in inside:
        return before + _exchange(row, inside) + after
    return _exchange(row, text)


def _exchange(row: Row, text: str) -> str:
    if text.count(row.right) != 1:
        msg = f"{row.target}: {row.right!r} stands {text.count(row.right)} times, not once"
        raise ValueError(msg)
    return text.replace(row.right, row.wrong)


def parameters_of(row: Row, source: str) -> tuple[str, ...]:
    """The parameters of the function, or of the method by which a layer is called."""
    own = next(node for node in ast.parse(source).body
               if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == row.name)
    if isinstance(own, ast.ClassDef):
        own = next(node for node in own.body
                   if isinstance(node, ast.FunctionDef) and node.name in ("forward", "__call__", "call"))
    names = [argument.arg for argument in (*own.args.posonlyargs, *own.args.args, *own.args.kwonlyargs)]
    return tuple(name for name in names if name != "self")


def lost_parameters(row: Row, source: str, adapter: str, said: str) -> tuple[str, ...]:
    """Parameters that no call in the adapter passes and no line of `init` names."""
    passed = 0
    for node in ast.walk(ast.parse(adapter)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in {row.name, "theirs", "layer", "state"}:
            passed = max(passed, len(node.args))
    names = parameters_of(row, source)
    return tuple(name for name in names[passed:]
                 if not re.search(rf"\b{name}\s*=", adapter) and not re.search(rf"\b{name}\b", said))


def run_command(arguments: Sequence[str], folder: Path) -> tuple[int, str, float]:
    """Exit code, output and seconds of attnspec with these arguments."""
    environment: Mapping[str, str] = {"KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1", **os.environ}
    begun = time.monotonic()
    try:
        ended = subprocess.run([sys.executable, "-m", "attnspec", *arguments], cwd=folder, env=environment,
                               timeout=LIMIT, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {LIMIT:.0f} s", time.monotonic() - begun
    return ended.returncode, ended.stdout + ended.stderr, time.monotonic() - begun


def try_target(row: Row, half: str, folder: Path, options: Sequence[str]) -> Tried:
    """`init` in this folder, then the command that it prints."""
    source = source_of(row, half)
    (folder / row.file).write_text(source, encoding="utf-8")
    before = children_seconds()
    code, output, seconds = run_command(["init", f"{row.file}:{row.name}"], folder)
    processor = round(children_seconds() - before, 1)
    said = tuple(output.partition(f"\n{_WROTE}")[0].splitlines())
    printed = _NEXT.search(output)
    blank = Tried(row.target, half, "", round(seconds, 1), 0.0, "", said, init_output=output, init_processor=processor)
    if code or printed is None:
        return replace(blank, verdict="init refuses")
    command = [*printed[1].split(), *options, "--no-record"]
    adapters = sorted((folder / "implementations").rglob("*.py"))
    written = "\n".join(path.read_text(encoding="utf-8") for path in adapters)
    lost = lost_parameters(row, source, written, "\n".join(said))
    code, output, seconds = run_command(command, folder)
    if code == 1 and half == "wrong" and (again := _AGAIN.search(output)):  # as the check says: glance tells no causes
        _, replayed, more = run_command(shlex.split(again[1]), folder)
        output, seconds = f"{output}\n{replayed}", seconds + more
    causes = tuple(line.strip() for line in _CAUSE.findall(output))
    clauses = tuple(" ".join(filter(None, found)) for found in _CLAUSE.findall(output))
    verdict = {0: "conforms", 1: "violated"}.get(code, f"error {code}")
    unjudged = left[1] if (left := _UNJUDGED.search(output)) else ""
    if verdict == "conforms" and set(re.findall(r"\w+", unjudged)) & {"state", *parameters_of(row, source)}:
        verdict = "conforms in part"
    if verdict == "violated" and half == "wrong":
        told = "\n".join((*causes, *(line for line in said if not line.startswith("found: "))))
        named = re.search(row.cause, told, re.IGNORECASE) is not None
        by_clause = not named and re.search(row.cause, "\n".join(clauses), re.IGNORECASE) is not None
        verdict = "violated, cause named" if named else "violated, clause named" if by_clause else "violated, no cause"
    return replace(blank, verdict=verdict, check_seconds=round(seconds, 1), command=" ".join(command), causes=causes,
                   clauses=clauses, unjudged=unjudged, lost=lost, check_output=output)


def read_record(path: Path) -> dict[tuple[str, str], Tried]:
    """What was tried before; the later of two lines counts."""
    if not path.is_file():
        return {}
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {(line["target"], line["half"]): Tried(**line) for line in lines}


def table_of(tried: Mapping[tuple[str, str], Tried]) -> Iterator[str]:
    """The lines of a Markdown table, with the shares of both halves above it."""
    for half in HALVES:
        of_half = [one for (_, its), one in tried.items() if its == half]
        counts = Counter(one.verdict for one in of_half)
        right = sum(one.is_right for one in of_half)
        yield (f"- {half}: {right} of {len(of_half)} verdicts are right; "
               + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    yield f"- parameters lost silently: {sum(len(one.lost) for one in tried.values())}"
    yield ""
    yield "| target | style | right | the mistake | wrong | cause | seconds (init, check) | not judged |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in ROWS:
        pair = [tried.get((row.target, half)) for half in HALVES]
        if any(pair):
            yield "| " + " | ".join(_cell(text) for text in _cells(row, *pair)) + " |"


def _cells(row: Row, right: Tried | None, wrong: Tried | None) -> Iterator[str]:
    yield f"`{row.target}`"
    yield row.style
    yield right.verdict if right else ""
    yield row.mistake
    yield wrong.verdict if wrong else ""
    yield wrong.causes[0] if wrong and wrong.causes else ""
    yield "; ".join(f"{one.init_seconds:.0f}, {one.check_seconds:.0f}" for one in (right, wrong) if one)
    yield "; ".join(dict.fromkeys(one.unjudged for one in (right, wrong) if one and one.unjudged))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


@click.command(help=__doc__)
@click.option("--record", type=click.Path(path_type=Path), default=Path("init_table.jsonl"), show_default=True)
@click.option("--table", type=click.Path(path_type=Path), help="Write the Markdown table here.")
@click.option("--into", type=click.Path(path_type=Path), help="Keep the folders here.")
@click.option("--effort", type=click.Choice(["glance", "quick", "default"]), default="quick", show_default=True)
@click.option("--dtype", help="Only this dtype, to be quicker.")
@click.option("--half", type=click.Choice([*HALVES, "both"]), default="both", show_default=True)
@click.option("--start", type=int, default=0, show_default=True)
@click.option("--count", type=int)
@click.option("--only", multiple=True, help="Only targets that this pattern matches.")
@click.option("--again", is_flag=True, help="Also those that are in the record.")
def main(*, record: Path, table: Path | None, into: Path | None, effort: str, dtype: str | None, half: str, start: int,
         count: int | None, only: Sequence[str], again: bool) -> None:
    """Try each, and write what became of it."""
    tried = read_record(record)
    rows = [row for row in ROWS if not only or any(fnmatchcase(row.target, pattern) for pattern in only)]
    options = ["--effort", effort, "-n", "1", *(["--dtype", dtype] if dtype else [])]
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows[start:None if count is None else start + count]:
            for one_half in HALVES if half == "both" else (half,):
                if (row.target, one_half) in tried and not again:
                    continue
                folder = (into or Path(scratch)) / row.target.replace(":", "_") / one_half
                folder.mkdir(parents=True, exist_ok=True)
                one = try_target(row, one_half, folder, options)
                tried[row.target, one_half] = one
                with record.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(one)) + "\n")
                click.echo(f"{'ok ' if one.is_right else 'NO '} {row.target} {one_half}: {one.verdict}"
                           f"{' lost ' + ', '.join(one.lost) if one.lost else ''}"
                           f" ({one.init_seconds:.0f} s, {one.check_seconds:.0f} s)")
    if table is not None:
        table.write_text("\n".join(table_of(tried)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
