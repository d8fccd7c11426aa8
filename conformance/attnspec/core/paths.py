"""Handles files and folders: data, portable paths, files written whole, and scratch folders.

A record is read on other machines, so its paths are without the folders of this one. A file is
written whole or not at all, so that what stood there before is not lost to a full disk. Last: what
GitHub Actions asks of the programs that it runs, by the variables that it sets.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TextIO

from attnspec.core.errors import FileLocation, UsageError

VERSION = "0.1.0"
"""The version of attnspec, for packages below its front."""

_PACKAGE = Path(__file__).parents[1]
# of another interpreter; from the beginning of a word only, else a long word costs the square of its length
_ELSEWHERE = re.compile(r"(?<![^\s\"'])[^\s\"']*/(?:site-packages|dist-packages|lib/python3\.\d+)/")

_PROGRAMS = ("bin", "Scripts")


def folder(name: str) -> Path:
    """The folder `name` (spec, implementations or reports)."""
    shipped = _PACKAGE / "_data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / name


def is_file(path: Path) -> bool:
    """Whether there is such a file; none has a name that is too long or has a null in it."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def portable_text(text: str) -> str:
    """The text with paths relative to where they are installed, or to the working directory.

    What a library prints or raises holds such paths.
    """
    if "/" not in text:
        return text
    for folder_text in (*_installed_folders(), *(f"{here}/" for here in _working_directory())):
        text = text.replace(folder_text, "")
    text = _ELSEWHERE.sub("", text)
    return text.replace(f"{tempfile.gettempdir()}/", "").replace(f"{Path.home()}/", "~/")


def portable_argument(argument: str) -> str:
    """A command's argument with its path from the working directory, else the file's name alone.

    A program is shown with its environment: `…/venv/bin/python`.
    """
    option, equals, value = "", "", argument
    if argument.startswith("--"):
        option, equals, value = argument.rpartition("=")
    path = Path(value)
    if path.is_absolute():
        short = typed_here(value)
        if short == value and path.parent.name in _PROGRAMS:
            short = "/".join(("…", *path.parts[1:][-3:]))
        elif short == value:
            short = path.name
        value = short
    return f"{option}{equals}{value}"


def typed_here(path: str) -> str:
    """A path as it can be typed here: from the working directory if it lies below."""
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


def write_whole(path: Path, data: str | bytes, what: str) -> None:
    """Writes the file, making its folder. `what` it is, for a reader: "page".

    What was there stays until all is written; a link stays a link. Raises UsageError where it
    cannot be written.
    """
    # half a surrogate pair may come from a subject's text, and no encoding writes it
    if isinstance(data, str):
        data = data.encode("utf-8", "backslashreplace")
    try:
        _write(Path(os.path.realpath(path)), data)
    except OSError as problem:
        raise cannot_write(path, what, problem) from None


def ensure_writable(path: Path, what: str) -> None:
    """Finds out before a long run whether the file can be written; it is there afterwards.

    Raises UsageError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as problem:
        raise cannot_write(path, what, problem) from None


def cannot_write(path: Path, what: str, problem: OSError) -> UsageError:
    """The error that says which file, and why."""
    return UsageError(f"the {what} {path} cannot be written: {problem.strerror or problem}.")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # a pipe, a device, a guarded folder
    if path.exists() and not (path.is_file() and os.access(path.parent, os.W_OK)):
        path.write_bytes(data)
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


_PREFIX = "attnspec-scratch-"
_LOCK = "in_use"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder with nothing but its lock, which is removed at the end.

    Raises OSError where none can be made. Folders of processes that were killed are removed by the
    next that starts. Whoever makes such a folder keeps a lock on a file in it. The kernel gives
    the lock back when the process ends, however it ends, so that a lock that is free tells a
    folder that nobody needs. The number of a process would not: containers share a folder of
    temporary files, and count their processes each.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with _hold_lock(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    with (folder / f"{_LOCK}.new").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # it bears its name once it is held: nobody finds it free before
        os.replace(lock.name, folder / _LOCK)
        yield


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        # another user's, or one that is just going
        with suppress(OSError), path.open(encoding="utf-8") as lock:
            if _is_free(lock):
                shutil.rmtree(path.parent, ignore_errors=True)


def _is_free(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file to which the summary of a step is appended."""


def is_on_github() -> bool:
    """Whether this runs in GitHub Actions, which makes annotations of some lines of the output."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def is_told() -> bool:
    """Whether GitHub Actions is to be told anything."""
    return is_on_github() or bool(os.environ.get(SUMMARY))


def append_summary(text: str) -> None:
    """Adds Markdown to the summary of the step, if one is asked for.

    Raises UsageError where it cannot be written.
    """
    name = os.environ.get(SUMMARY, "")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{text}\n")
    except OSError as problem:
        raise cannot_write(Path(name), f"summary of the step (${SUMMARY})", problem) from None


def in_repository(place: FileLocation) -> FileLocation | None:
    """The place with its file relative to the checkout, or to the working directory, for
    annotations.

    None for a file that lies in neither, or was installed there: GitHub shows no annotation at
    such a place.
    """
    file = Path(place.file).resolve()
    for home in (os.environ.get("GITHUB_WORKSPACE") or Path.cwd(), Path.cwd()):
        folder_path = Path(home).resolve()
        if file.is_relative_to(folder_path) and "site-packages" not in file.parts:
            return FileLocation(str(file.relative_to(folder_path)), place.line)
    return None
