"""Which kernels are meant: files, folders of them, patterns, and files that name targets."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from attnspec.core.errors import TargetError
from attnspec.subjects.outline import no_such_subject, only_function

FUNCTION = "attend"
"""How a kernel's function is called, unless its file has one function alone that takes what attention takes."""

DIGITS = 16
"""Of the digest of a file."""

_LIST = ".txt"


def find_kernels(named: Iterable[str], function: str = "") -> Iterator[str]:
    """The targets that are meant, in the order in which they are named; those of a folder or a pattern by name.

    A file of targets ends in .txt, has one on each line, and is read from the working directory; `#` begins a comment.
    function: what is judged of files for which no function is named; empty: the only one that there is, or `attend`.
    Raises TargetError for what is empty or nowhere.
    """
    for target in named:
        path, pattern = Path(target), target.rpartition(":")
        if path.is_dir():
            yield from _of_files(_in_folder(path), target, function)
        elif path.suffix == _LIST:
            yield from find_kernels(_lines(path), function)
        elif target.endswith(".py"):
            yield from _of_files(_match_files(target), target, function)
        elif pattern[0].endswith(".py") and glob.has_magic(pattern[0]):
            yield from _of_files(_match_files(pattern[0]), target, pattern[2])
        else:
            yield target


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TargetError(f"the targets in {path} cannot be read: {getattr(wrong, 'strerror', '') or wrong}.") from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _in_folder(folder: Path) -> list[Path]:
    """Every Python file below it whose name, and whose folders' names, do not begin with `_` or a dot."""
    return sorted(path for path in folder.rglob("*.py")
                  if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts))


def _match_files(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        if not Path(pattern).is_file():
            raise no_such_subject(pattern, ())
        return [Path(pattern)]
    return sorted(map(Path, glob.glob(pattern, recursive=True)))


def _of_files(files: Iterable[Path], named: str, function: str) -> Iterator[str]:
    found = [f"{file}:{function or only_function(file) or FUNCTION}" for file in files]
    if not found:
        raise TargetError(f"{named!r} names no kernel: there is no Python file.")
    yield from found


def file_digest(target: str) -> str:
    """What tells whether a kernel has changed: of its file; "" of a target that names none that can be read."""
    try:
        return hashlib.sha256(Path(target.rpartition(":")[0]).read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return ""
