"""`list`: what there is, without importing any framework, and NumPy only for how entries are made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import click

from attnspec.cli.mistakes import telling_own
from attnspec.cli.options import IMPLEMENTATIONS, JSON, SPEC, SPEC_ADD, OneOf
from attnspec.cli.words import list_vocabulary
from attnspec.core.characters import escape_hidden
from attnspec.core.conventions import PROFILES
from attnspec.faults.witnesses import all_faults, clauses_for
from attnspec.report.figures import count_noun
from attnspec.spec.clause import Spec
from attnspec.spec.load import load_spec
from attnspec.spec.refutations import read_refutations
from attnspec.subjects.registry import registered_subjects

Row = Mapping[str, str]
Law = Callable[[], Spec]  # read where it is asked for only
GAP = "  "
MOST_CHOICES = 6  # values of an argument that are listed


def _subjects(implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    for name, subject in registered_subjects(implementations).items():
        library = subject.library
        yield {"id": name, "title": subject.title,
               "dtypes": " ".join(dtype.value for dtype in subject.declaration.dtypes),
               "from": f"{library.distribution} {library.version}".strip(), "written for": library.versions,
               "cannot run": subject.why_missing}


def _clauses(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for clause in law().clauses:
        yield {"id": clause.id, "level": clause.level.value, "profile": clause.profile, "says": clause.says}


def _profiles(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    clauses = law().clauses
    for name, meaning in PROFILES.items():
        yield {"name": name, "clauses": str(sum(clause.profile == name for clause in clauses)), "meaning": meaning}


def _faults(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    """With the clauses that `check` puts each to: all that convict it would fill a page."""
    spec = law()
    found = read_refutations(spec)
    for name in all_faults(spec, found):
        count = len(found.of_fault(name))
        yield {"name": name, "detected by": count_noun(count, "clause") if count else "",
               "put to": " ".join(clauses_for(spec, found, name))}


def _words(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    for name, kind, schema in list_vocabulary():
        yield {"word": name, "kind": kind, "arguments": _arguments(schema),
               "meaning": _first_sentence(str(schema.get("description", "")))}


def _problems(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for name, problem in law().problems.items():
        yield {"name": name, "is": ", ".join(f"{key}: {_flow(value)}" for key, value in problem.args.items())}


def _flow(value: object) -> str:
    """As YAML has it on one line."""
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _families(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": family.meaning} for name, family in FAMILIES.items())


def _masks(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.make import MASKS  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": mask.meaning} for name, mask in MASKS.items())


def _biases(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.make import BIASES  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": bias.meaning} for name, bias in BIASES.items())


def _sources(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for source in law().bibliography.values():
        yield {"key": source.key, "kind": source.kind, "title": source.title, "url": source.url}


def _arguments(word: Mapping[str, Any]) -> str:
    """Their names, with the values of those that are one of a few; those that may be left out stand in brackets."""
    required = word.get("required", ())
    named = {name: f"{name}{_choices(value)}" for name, value in word.get("properties", {}).items()}
    return ", ".join(text if name in required else f"[{text}]" for name, text in named.items())


def _choices(value: Mapping[str, Any]) -> str:
    """`: exact|rounding` of an argument that is one of a few names, or a list of them."""
    names = value.get("enum", value.get("items", {}).get("enum", ()))
    return f": {'|'.join(map(str, names))}" if 0 < len(names) <= MOST_CHOICES else ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]


WHAT: Mapping[str, Callable[[Sequence[str], Law], Iterator[Row]]] = {
    "subjects": _subjects, "clauses": _clauses, "profiles": _profiles, "faults": _faults, "words": _words,
    "problems": _problems, "sources": _sources, "families": _families, "masks": _masks, "biases": _biases}


@click.command("list")
@click.argument("what", default="subjects", metavar="[WHAT]", type=OneOf("thing to list", WHAT))
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
@JSON
def list_(what: str, implementations: tuple[str, ...], spec: str, spec_add: tuple[str, ...], *, as_json: bool) -> None:
    """List WHAT: subjects, clauses, profiles or faults.

    Or the words, problems and sources that clauses use. Or families, masks and biases: the ways to make the entries of
    a problem. Without WHAT, subjects.
    """
    law = cache(partial(load_spec, spec, spec_add))
    with telling_own(law(), law().clauses) if spec_add and what == "clauses" else nullcontext():
        rows = list(WHAT[what](implementations, law))
        lines = [json.dumps(rows, ensure_ascii=False, indent=1)] if as_json else map(escape_hidden, format_table(rows))
        for line in lines:
            click.echo(line)


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """Columns, the last of them as long as it likes; columns that are empty throughout are left out."""
    columns = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    widths = {name: max(len(row[name]) for row in rows) for name in columns}
    for row in rows:
        yield GAP.join(row[name].ljust(widths[name]) for name in columns).rstrip()
