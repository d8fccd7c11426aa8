"""Finds registered subjects in manifests, and where a target is defined.

`registered_subjects` imports no framework and no NumPy; `load_target` imports one. Where the
function behind a target is defined is found without importing anything.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from attnspec.core import paths
from attnspec.core.errors import FileLocation, ManifestError, TargetError
from attnspec.core.nouns import is_bare
from attnspec.core.paths import in_repository
from attnspec.core.plan import HANDED
from attnspec.core.surroundings import Surroundings, kind_of
from attnspec.subjects.installed import audited_command
from attnspec.subjects.manifest import Library, Registered, library_folders, read_manifest
from attnspec.subjects.outline import file_of_module, no_such_subject, parse_file

if TYPE_CHECKING:
    from attnspec.record.outcome import KnownFinding
    from attnspec.subjects.subject import Subject


def registered_subjects(folders: Iterable[Path | str] = (), *,
                        library: str = "") -> Mapping[str, Registered]:
    """Returns every registered subject by id, from `implementations/` and further folders.
    library: the only one, if it is given. Raises ManifestError, UsageError.
    """
    subjects: dict[str, Registered] = {}
    for folder in library_folders(folders):
        if library and folder.name != library:
            continue
        for subject in read_manifest(folder):
            if subject.id in subjects:
                raise ManifestError(f"the subject {subject.id!r} is registered twice, first at "
                                    f"{subjects[subject.id].where}.", where=subject.where)
            subjects[subject.id] = subject
    return subjects


def load_target(target: str, surroundings: Surroundings | None = None, *, lift: str = "",
                 folders: Sequence[Path | str] = ()) -> Subject:
    """Loads the subject of a target: an id, `package.module:function` or
    `path/to/file.py:function`. It lives in a process of its own with these surroundings; without
    any, in this one. Raises TargetError (not found, not importable, not an attention function),
    ManifestError, UsageError.
    """
    from attnspec.subjects.findings import known_replays  # noqa: PLC0415  (weight: records)
    from attnspec.subjects.target import load_bare, load_registered  # noqa: PLC0415  (weight: NumPy)

    if is_bare(target):
        return load_bare(target, surroundings, lift=lift)
    # mistakes in other libraries do not matter here
    known = registered_subjects(folders, library=target.partition("/")[0])
    if target not in known:
        known = registered_subjects(folders)
    if target not in known:
        raise no_such_subject(target, known)
    if surroundings is None:
        _refuse_other_process(known[target])
    subject = load_registered(known[target], surroundings, lift=lift,
                              folders=tuple(map(Path, folders)))
    device = kind_of(surroundings.device if surroundings else "")
    folder, version = _find_folder(subject.library, folders), subject.library.version
    return replace(subject, findings=findings_about(target, subject.library, folders, device),
                   replays=known_replays(folder, target, version, device))


def findings_about(subject: str, library: Library, folders: Sequence[Path | str],
                   device: str) -> tuple[KnownFinding, ...]:
    """Returns the findings on a subject for the installed version and this kind of device."""
    from attnspec.subjects.findings import known_findings  # noqa: PLC0415  (weight: records)

    return known_findings(_find_folder(library, folders), subject, library.version, device)


def _find_folder(library: Library, folders: Sequence[Path | str]) -> Path:
    return next(path for path in library_folders(folders) if path.name == library.folder)


def process_of(target: str, folders: tuple[str, ...] = ()) -> Mapping[str, str]:
    """Returns the environment variables that a process judging this target should begin with."""
    if is_bare(target):  # a module's or a file's function: no manifest speaks of it
        return {}
    return _list_processes(folders, audited_command()).get(target, {})


@cache
def _list_processes(folders: tuple[str, ...], _audited: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Returns them by subject; cached, since a run asks for each of its thousands of items."""
    return {name: {**subject.faster_with, **subject.process} for name, subject in registered_subjects(folders).items()}


def _refuse_other_process(subject: Registered) -> None:
    """Raises TargetError where this process did not begin as the manifest asks."""
    for name, value in subject.process.items():
        if not set(value.split()) <= set(os.environ.get(name, "").split()):  # further flags may stand beside them
            found = f"it is {os.environ[name]!r}" if name in os.environ else "it is not set"
            raise TargetError(f"{subject.id} is judged in a process that begins with "
                              f"{name}={value}; here {found}. `attnspec check` sees to it; "
                              "elsewhere set it before Python starts.")


def defined_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """Returns the line of the `def` that a target names, or None; a registered one's is in its
    adapter.  folders: further implementations. Only files of this machine that bind the name at
    the top are read.
    """
    written, _, name = target.rpartition(":")
    if written == HANDED:
        return _locate_code(getattr(sys.modules.get(HANDED), name, None))
    if not written:
        file, name = _find_adapter(target, folders)
    else:
        file = Path(written) if written.endswith(".py") else file_of_module(written) or _file_of_loaded(written)
    return _locate_in_file(file, name.partition(".")[0]) if file else None


def annotated_at(target: str, folders: Iterable[str | Path] = ()) -> FileLocation | None:
    """Returns where a target is defined, with the file as GitHub's annotations name it. For an
    adapter that wraps a function of the repository, it is the line of that function, which is to
    be mended.
    """
    place = defined_at(target, folders)
    if place is None:
        return None
    wraps = not is_bare(target)  # an id, behind which an adapter stands
    return next(filter(None, map(in_repository, (*(_wrapped_places(place) if wraps else ()), place))), None)


def _wrapped_places(place: FileLocation) -> Iterator[FileLocation]:
    """Yields where the functions and classes are defined that an adapter imports and uses."""
    tree = ast.parse(Path(place.file).read_bytes())
    adapter = next(node for node in tree.body if node.lineno == place.line)
    used = {node.id for node in ast.walk(adapter) if isinstance(node, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
            continue
        names = [each.name for each in node.names if (each.asname or each.name) in used]
        file = file_of_module(node.module) if names else None
        yield from filter(None, (_locate_in_file(file, name) for name in names if file))


def _find_adapter(target: str, folders: Iterable[str | Path]) -> tuple[Path | None, str]:
    """Returns the file of a registered subject's adapter, and the function's name in it."""
    library = target.partition("/")[0]
    known = registered_subjects(folders, library=library).get(target)
    module, _, name = known.function.partition(":") if known else ("", "", "")
    homes = [Path(folder) / library for folder in (*folders, paths.folder("implementations"))]
    file = next((each for home in homes if (each := home / f"{module}.py").is_file()),
                None) if module else None
    return file, name


def _locate_code(function: object) -> FileLocation | None:
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return FileLocation(str(Path(code.co_filename).resolve()), code.co_firstlineno)


def _file_of_loaded(module: str) -> Path | None:
    """Returns the file of a loaded module: no path leads to pytest's test files."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file else None


def _locate_in_file(file: Path, name: str) -> FileLocation | None:
    tree = parse_file(file)  # the trial says what is wrong with one that cannot be read
    line = next((node.lineno for node in tree.body if name in _list_defined(node)), 0)
    return FileLocation(str(file.resolve()), line) if line else None


def _list_defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()
