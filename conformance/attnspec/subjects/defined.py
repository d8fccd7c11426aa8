"""Where the function behind a target is defined, found without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from attnspec.core import paths
from attnspec.core.errors import Place
from attnspec.core.github_actions import in_repository
from attnspec.subjects.outline import file_of_module
from attnspec.subjects.registry import registered


def defined_at(target: str, folders: Iterable[str | Path] = ()) -> Place | None:
    """The line of the `def` that a target names: of a registered one, in its adapter. folders: further implementations.

    None where no file of this machine binds the name at its top level, as of what lives elsewhere.
    """
    written, _, name = target.rpartition(":")
    if not written:
        file, name = _adapter(target, folders)
    else:
        file = Path(written) if written.endswith(".py") else file_of_module(written)
    return _in_file(file, name.partition(".")[0]) if file else None


def annotated_at(target: str, folders: Iterable[str | Path] = ()) -> Place | None:
    """The same with the file as GitHub's annotations name it."""
    place = defined_at(target, folders)
    return in_repository(place) if place else None


def _adapter(target: str, folders: Iterable[str | Path]) -> tuple[Path | None, str]:
    """The file of a registered subject's adapter, and the function's name in it."""
    library = target.partition("/")[0]
    known = registered(folders, library=library).get(target)
    module, _, name = known.function.partition(":") if known else ("", "", "")
    homes = [Path(folder) / library for folder in (*folders, paths.folder("implementations"))]
    file = next((each for home in homes if (each := home / f"{module}.py").is_file()), None) if module else None
    return file, name


def _in_file(file: Path, name: str) -> Place | None:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # the trial says what is wrong with it
        return None
    line = next((node.lineno for node in tree.body if name in _names(node)), 0)
    return Place(str(file.resolve()), line) if line else None


def _names(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()
