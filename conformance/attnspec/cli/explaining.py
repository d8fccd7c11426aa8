"""`explain`: everything about one clause, or the story of one fault."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from attnspec.cli import completing
from attnspec.cli.options import JSON, SPEC, SPEC_ADD
from attnspec.ground.errors import UsageError, either, near_misses
from attnspec.home import folder
from attnspec.law.added import added_files
from attnspec.law.clause import Citation, Clause, Spec
from attnspec.law.load import load_spec
from attnspec.law.yaml_lines import shown
from attnspec.record.codec import encode
from attnspec.runner.texts import text_of

WIDTH = 100


@click.command()
@click.argument("name", metavar="CLAUSE", shell_complete=completing.clauses_and_faults)
@SPEC
@SPEC_ADD
@JSON
def explain(name: str, spec: str, spec_add: tuple[str, ...], *, as_json: bool) -> None:
    """Explain a clause: its sentence, its sources, its formula, its YAML. Or tell the story of a fault."""
    law = load_spec(spec, spec_add)
    clause = next((each for each in law.clauses if each.id == name), None)
    if clause is None:
        _tell_fault(name, law)
    elif as_json:
        click.echo(json.dumps(encode(text_of(clause, law)), ensure_ascii=False, indent=1))
    else:
        for line in _explained(clause, law, file_of(clause, Path(spec) if spec else folder("spec"), spec_add)):
            click.echo(line)


def _explained(clause: Clause, law: Spec, file: Path) -> Iterator[str]:
    yield f"{clause.id}  ({clause.level.value}, profile {clause.profile})  {clause.where}"
    yield ""
    yield from _wrapped(clause.says)
    rows = {"formula": clause.formula, "needs": ", ".join(sorted(clause.needs)), "note": clause.note}
    for name, text in rows.items():
        if text:
            yield ""
            yield from _wrapped(f"{name}: {text}")
    yield ""
    yield "because:"
    for citation in clause.because:
        yield from _source(citation, law)
    if clause.refuted_by:
        yield ""
        yield from _wrapped(f"refuted by: {', '.join(clause.refuted_by)}  (explain tells their stories, too)")
    yield ""
    yield f"{clause.where}:"
    yield textwrap.indent(yaml_of(clause, file), "  ")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def _source(citation: Citation, law: Spec) -> Iterator[str]:
    source = law.bibliography[citation.cite]
    by = ", ".join(filter(None, (source.author, source.year)))
    at = f", at {citation.at!r}" if citation.at else ""
    yield from _wrapped(f"{source.title}{f' ({by})' if by else ''}{at}")
    for text in (f"“{citation.quote}”" if citation.quote else "", citation.note, source.url):
        if text:
            yield f"    {text}"


def file_of(clause: Clause, home: Path, added: Iterable[str]) -> Path:
    """The file that holds the clause: one of the law's folder, or an added one."""
    return next(file for file in (*home.glob("*.yaml"), *added_files(added)) if shown(file) == clause.where.file)


def yaml_of(clause: Clause, file: Path) -> str:
    """The clause as its file has it: from its own line to the next clause, or to what follows the clauses."""
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    first = clause.where.line - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    following = next((number for number, line in enumerate(lines[first + 1:], start=first + 1)
                      if line.strip() and len(line) - len(line.lstrip()) <= indent), len(lines))
    return textwrap.dedent("\n".join(lines[first:following])).rstrip()


def _tell_fault(name: str, law: Spec) -> None:
    """Raises UsageError where there is neither a clause nor a fault of this name."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy, and only for faults)

    if name not in CATALOGUE:
        raise UsageError(f"{name!r} is neither a clause nor a fault.{_nearest(name, law, CATALOGUE)}"
                         " A clause of your own is found with --spec-add FILE.")
    fault = CATALOGUE[name]
    click.echo(f"{fault.name}  (a fault, kept to prove the clauses; stage {fault.stage.value})\n")
    for text in (fault.story, f"it bites: {fault.reach}", fault.link):
        click.echo("\n".join(_wrapped(text)))
    refuters = [clause.id for clause in law.clauses if name in clause.refuted_by]
    click.echo("\n".join(_wrapped(f"refuted by: {', '.join(refuters) or 'no clause'}")))


def _nearest(name: str, law: Spec, faults: Mapping[str, object]) -> str:
    near = near_misses(name, [*(clause.id for clause in law.clauses), *faults])
    return (f" Did you mean {either(near)}?" if near else "") + (
        " `attnspec list clauses` and `attnspec list faults` name them all.")
