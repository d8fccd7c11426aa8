"""Clauses of one's own, in the files that `--spec-add` names: the grammar of the law's files, read beside them.

Such a file has no theme: a clause's theme is what its id begins with. It may bring sources and problems of its own,
which all added files may use. Its `must` clauses need not name a fault: the catalogue has none for every promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnspec.ground.errors import Place, SpecError
from attnspec.law.clause import Clause
from attnspec.law.fields import Fields
from attnspec.law.read_clause import Context, read_clause
from attnspec.law.yaml_lines import Located, parse_yaml, read_bytes, shown

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
    return tuple(_read(path) for path in added_files(paths))


def added_files(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """The files, and the YAML files of the folders, each once. Raises SpecError for a folder without any."""
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(Path(path)):
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def added_clauses(added: Added, context: Context) -> Iterator[Clause]:
    """The clauses of a file. Raises SpecError with file and line."""
    fields = Fields(added.document, "an added file")
    clauses = tuple(read_clause(clause, "", context) for clause in fields.each("clauses", "a clause"))
    if not clauses:
        raise fields.complain("clauses", "is empty; write at least one clause.")
    yield from clauses


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise SpecError("there is no YAML file in this folder of own clauses.", where=Place(shown(path)))
    return files


def _read(path: Path) -> Added:
    data = read_bytes(path)
    document = parse_yaml(data, shown(path), wanted=_WANTED)
    Fields(document, "an added file").only(KEYS)
    return Added(shown(path), data, document)
