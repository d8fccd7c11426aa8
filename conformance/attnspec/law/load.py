"""The folder `spec/` to a Spec. Everything that can be judged without knowing the words is judged here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnspec import home
from attnspec.ground.errors import Place, SpecError
from attnspec.law.bibliography import read_bibliography
from attnspec.law.clause import Clause, Spec
from attnspec.law.fields import Fields
from attnspec.law.read_clause import Context, read_clause, read_problems
from attnspec.law.yaml_lines import Located, parse_yaml, read_bytes, shown

_COMMON = ("bibliography.yaml", "problems.yaml", "spec.yaml")  # every other file holds one theme's clauses


def load_spec(folder: Path | None = None) -> Spec:
    """The law in `folder` (default: the law that attnspec ships with).

    Raises SpecError (file, line, cause, nearest name) at the first thing that is wrong. Words and their arguments are
    looked up later, when the spec is compiled.
    """
    folder = folder or home.folder("spec")
    files = _files(folder)
    documents = {name: parse_yaml(data, shown(folder / name)) for name, data in files.items()}
    context = Context(problems=read_problems(documents["problems.yaml"]),
                      bibliography=read_bibliography(documents["bibliography.yaml"]))
    themes = [name for name in files if name not in _COMMON]
    clauses = _unique(clause for name in themes for clause in _theme(name, documents[name], context))
    return Spec(version=_version(documents["spec.yaml"]), digest=_digest(files), clauses=clauses,
                bibliography=context.bibliography, problems=context.problems)


def _files(folder: Path) -> dict[str, bytes]:
    """Every YAML file of the folder, by name, in the order of names; the three common ones must be there."""
    if not folder.is_dir():
        reason = "is no folder" if folder.exists() else "there is no such folder"
        raise SpecError(f"{reason}; a spec is a folder of YAML files.", where=Place(shown(folder)))
    names = {path.name for path in folder.iterdir() if path.suffix == ".yaml"}
    if not names.difference(_COMMON):
        raise SpecError("holds no clauses: there is no file of a theme, as causal.yaml.", where=Place(shown(folder)))
    if stray := sorted(path.name for path in folder.glob("*.yml")):
        raise SpecError("the files of a spec end in .yaml; rename this one.", where=Place(shown(folder / stray[0])))
    return {name: read_bytes(folder / name) for name in sorted(names.union(_COMMON))}


def _theme(file: str, document: Located, context: Context) -> Iterator[Clause]:
    fields = Fields(document, "a theme's file")
    fields.only({"theme", "clauses"})
    theme, expected = fields.text("theme"), file.removesuffix(".yaml")
    if theme != expected:
        raise fields.complain("theme", f"should be {expected!r}, the name of its file, not {theme!r}.")
    for clause in fields.each("clauses", "a clause"):
        yield read_clause(clause, theme, context)


def _unique(clauses: Iterator[Clause]) -> tuple[Clause, ...]:
    """The clauses, in order; an id given twice is an error."""
    seen: dict[str, Clause] = {}
    for clause in clauses:
        if clause.id in seen:
            message = f"there are two clauses {clause.id!r}; the first is at {seen[clause.id].where}."
            raise SpecError(message, where=clause.where)
        seen[clause.id] = clause
    return tuple(seen.values())


def _version(document: Located) -> str:
    fields = Fields(document, "the spec")
    fields.only({"version"})
    return fields.text("version")


def _digest(files: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"".join(files.values())).hexdigest()
