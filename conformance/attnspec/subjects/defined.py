"""Where the function behind a target is defined, found without importing anything."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType

from attnspec.core import paths
from attnspec.core.errors import FileLocation
from attnspec.core.github_actions import in_repository
from attnspec.core.nouns import is_bare
from attnspec.core.plan import HANDED
from attnspec.subjects.outline import file_of_module, parse_file
from attnspec.subjects.registry import registered_subjects


def defined_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """The line of the `def` that a target names: of a registered one, in its adapter. folders: further implementations.

    None where no file of this machine binds the name at its top level, as of what lives elsewhere.
    """
    written, _, name = target.rpartition(":")
    if written == HANDED:
        return _of_code(getattr(sys.modules.get(HANDED), name, None))
    if not written:
        file, name = _adapter(target, folders)
    else:
        file = Path(written) if written.endswith(".py") else file_of_module(written) or _file_of_loaded(written)
    return _in_file(file, name.partition(".")[0]) if file else None


def annotated_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """The place where a target is defined, with the file as GitHub's annotations name it.

    Of an adapter that wraps a function of the repository, it is the line of that function: that one is to be mended.
    """
    place = defined_at(target, folders)
    if place is None:
        return None
    wraps = not is_bare(target)  # an id, behind which an adapter stands
    return next(filter(None, map(in_repository, (*(_wrapped_places(place) if wraps else ()), place))), None)


def _wrapped_places(place: FileLocation) -> Iterator[FileLocation]:
    """Where the functions and classes are defined that the adapter at a place imports and uses."""
    tree = ast.parse(Path(place.file).read_bytes())
    adapter = next(node for node in tree.body if node.lineno == place.line)
    used = {node.id for node in ast.walk(adapter) if isinstance(node, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
            continue
        names = [each.name for each in node.names if (each.asname or each.name) in used]
        file = file_of_module(node.module) if names else None
        yield from filter(None, (_in_file(file, name) for name in names if file))


def _adapter(target: str, folders: Iterable[str | Path]) -> tuple[Path | None, str]:
    """The file of a registered subject's adapter, and the function's name in it."""
    library = target.partition("/")[0]
    known = registered_subjects(folders, library=library).get(target)
    module, _, name = known.function.partition(":") if known else ("", "", "")
    homes = [Path(folder) / library for folder in (*folders, paths.folder("implementations"))]
    file = next((each for home in homes if (each := home / f"{module}.py").is_file()), None) if module else None
    return file, name


def _of_code(function: object) -> FileLocation | None:
    """Where a function object was written."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return FileLocation(str(Path(code.co_filename).resolve()), code.co_firstlineno)


def _file_of_loaded(module: str) -> Path | None:
    """The file of a module of this process: pytest imports test files that no path leads to."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file else None


def _in_file(file: Path, name: str) -> FileLocation | None:
    tree = parse_file(file)  # the trial says what is wrong with one that cannot be read
    line = next((node.lineno for node in tree.body if name in _names(node)), 0)
    return FileLocation(str(file.resolve()), line) if line else None


def _names(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()
