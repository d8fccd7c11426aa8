"""`list`: what there is, without importing NumPy or any framework."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from attnspec.cli.options import IMPLEMENTATIONS, JSON, SPEC, OneOf
from attnspec.ground.errors import Place, SpecError
from attnspec.ground.profiles import PROFILES
from attnspec.home import folder
from attnspec.law.clause import Spec
from attnspec.law.load import load_spec
from attnspec.subjects.registry import registered

Row = Mapping[str, str]
GAP = "  "


def _subjects(implementations: Sequence[str], _spec: str) -> Iterator[Row]:
    for name, subject in registered(implementations).items():
        library = subject.library
        yield {"id": name, "title": subject.title,
               "dtypes": " ".join(dtype.value for dtype in subject.declaration.dtypes),
               "from": f"{library.distribution} {library.version}".strip(), "written for": library.versions,
               "cannot run": subject.missing}


def _clauses(_implementations: Sequence[str], spec: str) -> Iterator[Row]:
    for clause in _law(spec).clauses:
        yield {"id": clause.id, "level": clause.level.value, "profile": clause.profile, "says": clause.says}


def _profiles(_implementations: Sequence[str], spec: str) -> Iterator[Row]:
    clauses = _law(spec).clauses
    for name, meaning in PROFILES.items():
        yield {"name": name, "clauses": str(sum(clause.profile == name for clause in clauses)), "meaning": meaning}


def _faults(_implementations: Sequence[str], spec: str) -> Iterator[Row]:
    refuters: dict[str, list[str]] = {}
    for clause in _law(spec).clauses:
        for name in clause.refuted_by:
            refuters.setdefault(name, []).append(clause.id)
    for name in sorted(refuters):
        yield {"name": name, "refuted by": " ".join(refuters[name])}


def _words(_implementations: Sequence[str], _spec: str) -> Iterator[Row]:
    """From the generated schema: the words themselves are functions over arrays, and would import NumPy."""
    path = folder("spec") / "schema.json"
    if not path.is_file():
        raise SpecError("there is no such file. Write it: attnspec schema --write.", where=Place(str(path)))
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    for kind in ("transform", "relation"):
        for name, word in _named(definitions[kind]):
            yield {"word": name, "kind": kind, "meaning": _first_sentence(str(word.get("description", "")))}


def _named(definition: Mapping[str, object]) -> Iterable[tuple[str, Mapping[str, object]]]:
    """The words of a definition: of its object form, where every word stands with its arguments."""
    forms = definition.get("anyOf", [definition])
    assert isinstance(forms, list)  # attnspec wrote the file
    return [pair for form in forms for pair in form.get("properties", {}).items()]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]


def _law(spec: str) -> Spec:
    return load_spec(Path(spec) if spec else None)


WHAT: Mapping[str, Callable[[Sequence[str], str], Iterator[Row]]] = {
    "subjects": _subjects, "clauses": _clauses, "profiles": _profiles, "faults": _faults, "words": _words}


@click.command("list")
@click.argument("what", default="subjects", type=OneOf("thing to list", WHAT))
@IMPLEMENTATIONS
@SPEC
@JSON
def list_(what: str, implementations: tuple[str, ...], spec: str, *, as_json: bool) -> None:
    """List subjects, clauses, profiles, faults or words of the spec."""
    rows = list(WHAT[what](implementations, spec))
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    for line in table(rows):
        click.echo(line)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Columns, the last of them as long as it likes; columns that are empty throughout are left out."""
    columns = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    widths = {name: max(len(row[name]) for row in rows) for name in columns}
    for row in rows:
        yield GAP.join(row[name].ljust(widths[name]) for name in columns).rstrip()
