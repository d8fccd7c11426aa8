"""Where the data folders lie, and paths without the folders of this machine: a record is read on other machines."""

from __future__ import annotations

import re
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
# of another interpreter; from the beginning of a word only, else a long word costs the square of its length
_ELSEWHERE = re.compile(r"(?<![^\s\"'])[^\s\"']*/(?:site-packages|dist-packages|lib/python3\.\d+)/")

_PROGRAMS = ("bin", "Scripts")


def folder(name: str) -> Path:
    """The folder `name` (spec, implementations or reports)."""
    shipped = _PACKAGE / "_data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / name


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have (too long, a null in it) is that of none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def portable_text(text: str) -> str:
    """The text with paths shown from the folder that they are installed in, from attnspec's or the working directory.

    What a library prints or raises holds such paths.
    """
    if "/" not in text:
        return text
    for known in (*_installed_folders(), *(f"{here}/" for here in _working_directory())):
        text = text.replace(known, "")
    text = _ELSEWHERE.sub("", text)
    return text.replace(f"{tempfile.gettempdir()}/", "").replace(f"{Path.home()}/", "~/")


def portable_argument(typed: str) -> str:
    """A command's argument with what it says of a path: from the working directory, else the file's name alone; of a
    program the environment that it is of, too: `…/venv/bin/python`.
    """
    option, is_given, value = typed.rpartition("=") if typed.startswith("--") else ("", "", typed)
    path = Path(value)
    if path.is_absolute():
        told = "/".join(("…", *path.parts[1:][-3:])) if path.parent.name in _PROGRAMS else path.name
        value = next((path.relative_to(here).as_posix() for here in _working_directory() if path.is_relative_to(here)),
                     told)
    return f"{option}{is_given}{value}"


def typed_here(path: str) -> str:
    """A path as it can be typed in the working directory: from there if it lies below, else as it is."""
    for here in _working_directory():
        if Path(path).is_absolute() and Path(path).is_relative_to(here):
            return Path(path).relative_to(here).as_posix()
    return path


def _working_directory() -> tuple[Path, ...]:
    """The working directory; nothing where it was deleted meanwhile."""
    try:
        return (Path.cwd(),)
    except OSError:
        return ()


@cache
def _installed_folders() -> tuple[str, ...]:
    """The folders of packages, of Python's library and of attnspec, inner ones first."""
    return tuple(sorted({f"{known}/" for known in _folders()}, key=len, reverse=True))


def _folders() -> Iterator[Path]:
    yield from (Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib"))
    yield folder("spec").parent
