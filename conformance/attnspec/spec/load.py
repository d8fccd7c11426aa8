"""The folder `spec/`, and the files that `--spec-add` names, to a Spec."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from attnspec.core import paths
from attnspec.core.errors import FileLocation, SpecError, quoted
from attnspec.core.nouns import Level
from attnspec.spec.clause import Clause, Spec
from attnspec.spec.fields import Fields
from attnspec.spec.read_clause import (
    Context,
    named_problems,
    read_bibliography,
    read_clause,
    read_problems,
    read_sources,
)
from attnspec.spec.yaml_lines import Located, parse_yaml, read_bytes, shown_path

_COMMON = ("bibliography.yaml", "problems.yaml", "spec.yaml")  # every other file holds one theme's clauses


def _give_up(problem: SpecError) -> None:
    raise problem


def load_spec(folder: Path | str | None = None, added: Iterable[Path | str] = (), *,
              tell: Callable[[SpecError], None] = _give_up) -> Spec:
    """The law in `folder` (default: the law that attnspec ships with), and the clauses of the `added` files beside it.

    Raises SpecError (file, line, cause, nearest name) at the first thing that is wrong; what is wrong with a clause is
    told to `tell`, and if that raises nothing, the clause is left out. Words and their arguments are looked up later,
    when the spec is compiled.
    """
    folder = Path(folder) if folder else paths.folder("spec")
    files, own = _files(folder), read_added(added)
    if own or tell is not _give_up:
        return _law(folder, files, own, tell)
    return _load_once(folder, shown_path(folder), tuple(files.items()))


@lru_cache(maxsize=2)
def _load_once(folder: Path, _shown: str, files: tuple[tuple[str, bytes], ...]) -> Spec:
    """The law of these files, read once: a process may make many engines. Places are told from the working folder."""
    return _law(folder, dict(files), (), _give_up)


def _law(folder: Path, files: Mapping[str, bytes], own: Sequence[Added], tell: Callable[[SpecError], None]) -> Spec:
    documents = {name: parse_yaml(data, shown_path(folder / name)) for name, data in files.items()}
    context = _context(documents, own)
    themes = [name for name in files if name not in _COMMON]
    shipped = (clause for name in themes for clause in _theme(name, documents[name], context, tell))
    clauses = _unique(chain(shipped, (clause for file in own for clause in added_clauses(file, context, tell))))
    return Spec(version=_version(documents["spec.yaml"]), digest=_digest(*files.values(), *(file.data for file in own)),
                clauses=clauses, bibliography=context.bibliography, problems=context.problems,
                added=tuple(file.name for file in own), folder=folder)


def _context(documents: Mapping[str, Located], own: Iterable[Added]) -> Context:
    """The problems and sources of all files together."""
    problems = read_problems(documents["problems.yaml"])
    bibliography = read_bibliography(documents["bibliography.yaml"])
    for file in own:
        fields = Fields(file.document, "an added file")
        problems |= named_problems(fields, optional=True)
        bibliography |= read_sources(fields, optional=True)
    own_documents = [file.document for file in own]
    _refuse_two("problems", "problem", [documents["problems.yaml"], *own_documents])
    _refuse_two("sources", "source", [documents["bibliography.yaml"], *own_documents])
    return Context(problems=problems, bibliography=bibliography)


def _refuse_two(key: str, noun: str, documents: Iterable[Located]) -> None:
    """Raise SpecError for a name under `key` to which an earlier document gives another meaning."""
    first: dict[str, tuple[object, FileLocation]] = {}
    for document in documents:
        named: Located = document.get(key) or Located(document.place)
        for name, meant in named.items():
            earlier, place = first.setdefault(name, (meant, named.place_of(name)))
            if meant != earlier:
                raise SpecError(f"there are two {noun}s {name!r}; the first is at {place}. Rename this one.",
                                where=named.place_of(name))


def _files(folder: Path) -> dict[str, bytes]:
    """Every YAML file of the folder, by name, in the order of names; the three common ones must be there."""
    if not folder.is_dir():
        reason = "is not a folder" if folder.exists() else "there is no such folder"
        way = " Clauses of your own are added by --spec-add." if folder.exists() else ""
        raise SpecError(f"{reason}; a spec is a folder of YAML files.{way}", where=FileLocation(shown_path(folder)))
    names = {path.name for path in folder.iterdir() if path.suffix == ".yaml"}
    if not names.difference(_COMMON):
        raise SpecError("holds no clauses: there is no file of a theme, such as causal.yaml.",
                        where=FileLocation(shown_path(folder)))
    if stray := sorted(path.name for path in folder.glob("*.yml")):
        raise SpecError("the files of a spec end in .yaml; rename this one.",
                        where=FileLocation(shown_path(folder / stray[0])))
    return {name: read_bytes(folder / name) for name in sorted(names.union(_COMMON))}


def _theme(
    file: str, document: Located, context: Context, tell: Callable[[SpecError], None],
) -> Iterator[Clause]:
    fields = Fields(document, "a theme's file")
    fields.refuse_other_keys({"theme", "clauses"})
    theme, expected = fields.text("theme"), file.removesuffix(".yaml")
    if theme != expected:
        raise fields.complain("theme", f"should be {expected!r}, the name of its file, not {quoted(theme)}.")
    for clause in fields.read_each("clauses", "a clause"):
        try:
            yield _refutable(read_clause(clause, theme, context))
        except SpecError as problem:
            tell(problem)


def _refutable(clause: Clause) -> Clause:
    """The clause, if it is known that it can fail. Raises SpecError."""
    if clause.level is Level.MUST and not clause.refuted_by:
        raise SpecError(f"the clause {clause.id!r} needs 'refuted_by': a must clause names a fault that violates it.",
                        where=clause.place_of("refuted_by"))
    return clause


def _unique(clauses: Iterator[Clause]) -> tuple[Clause, ...]:
    """The clauses, in order; an id given twice is an error."""
    seen: dict[str, Clause] = {}
    for clause in clauses:
        if clause.id in seen:
            message = f"there are two clauses {clause.id!r}; the first is at {seen[clause.id].where}. Rename this one."
            raise SpecError(message, where=clause.where)
        seen[clause.id] = clause
    return tuple(seen.values())


def _version(document: Located) -> str:
    fields = Fields(document, "the spec")
    fields.refuse_other_keys({"version"})
    return fields.text("version")


def _digest(*files: bytes) -> str:
    return hashlib.sha256(b"".join(files)).hexdigest()


OWN = " A clause of your own is found with --spec-add FILE."
"""What to say, after a message, to whoever names a clause that is none."""

KEYS = ("clauses", "sources", "problems")
_SUFFIXES = (".yaml", ".yml")
_WANTED = "a mapping with the key `clauses` is expected"


@dataclass(frozen=True, slots=True)
class Added:
    """A file of own clauses as it was read. `name`: as the user knows it."""

    name: str
    data: bytes
    document: Located


def read_added(paths: Iterable[Path | str]) -> tuple[Added, ...]:
    """The files, and those of the folders, in the order in which they are named, each once. Raises SpecError."""
    return tuple(_read_added_file(path) for path in added_files(paths))


def added_files(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """The files, and the YAML files of the folders, each once. Raises SpecError for a folder without any."""
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(Path(path)):
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def added_clauses(added: Added, context: Context, tell: Callable[[SpecError], None]) -> Iterator[Clause]:
    """The clauses of a file. What is wrong with one is told to `tell`. Raises SpecError with file and line."""
    fields = Fields(added.document, "an added file")
    clauses = tuple(fields.read_each("clauses", "a clause"))
    if not clauses:
        raise fields.complain("clauses", "is empty; write at least one clause.")
    for clause in clauses:
        try:
            yield read_clause(clause, "", context)
        except SpecError as problem:
            tell(problem)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise SpecError("this folder should hold your own clauses, but there is no YAML file in it.",
                        where=FileLocation(shown_path(path)))
    return files


def _read_added_file(path: Path) -> Added:
    data = read_bytes(path)
    document = parse_yaml(data, shown_path(path), wanted=_WANTED)
    if "theme" in document:
        raise SpecError("a file of your own clauses has no 'theme': leave it out. The part of an id before the dot is "
                        "its theme.", where=document.place_of("theme"))
    Fields(document, "an added file").refuse_other_keys(KEYS)
    return Added(shown_path(path), data, document)
