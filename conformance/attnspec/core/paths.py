"""Files and folders: where data lie, paths as others read them, files written whole, folders that end with a process.

A record is read on other machines, so its paths are without the folders of this one. A file is written whole or not at
all, so that what stood there before is not lost to a full disk. Last: what GitHub Actions asks of the programs that it
runs, by the variables that it sets.
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
"""Of attnspec, for those below the package's own front."""

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


def write_whole(path: Path, data: str | bytes, what: str) -> None:
    """Write the file, making its folder. `what` it is, for a reader: "page".

    What was there stays until all is written; a link stays a link. Raises UsageError where it cannot be written.
    """
    # half a surrogate pair may come from a subject's text, and no encoding writes it
    written = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    try:
        _write(Path(os.path.realpath(path)), written)
    except OSError as problem:
        raise cannot_write(path, what, problem) from None


def ensure_writable(path: Path, what: str) -> None:
    """Find out before a long run whether the file can be written; it is there afterwards. Raises UsageError."""
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
    if path.exists() and not (path.is_file() and os.access(path.parent, os.W_OK)):  # a pipe, a device, a guarded folder
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
    """A new empty folder but for its lock, which is removed at the end. Raises OSError where none can be made.

    Folders of processes that were killed are removed by the next that starts. Whoever makes such a folder keeps a lock
    on a file in it. The kernel gives the lock back when the process ends, however it ends, so that a lock that is free
    tells a folder that nobody needs. The number of a process would not: containers share a folder of temporary files,
    and count their processes each.
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
        os.replace(lock.name, folder / _LOCK)  # it bears its name once it is held: nobody finds it free before
        yield


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), path.open(encoding="utf-8") as lock:  # another user's, or one that is just going
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
    """Whether anything is to be told there."""
    return is_on_github() or bool(os.environ.get(SUMMARY))


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the step, if one is asked for. Raises UsageError where it cannot be written."""
    name = os.environ.get(SUMMARY, "")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{text}\n")
    except OSError as problem:
        raise cannot_write(Path(name), f"summary of the step (${SUMMARY})", problem) from None


def in_repository(place: FileLocation) -> FileLocation | None:
    """The place with its file as annotations name it: from the folder of the checkout, or from where the program runs.

    None for a file that lies in neither, or was installed there: GitHub shows no annotation at such a place.
    """
    file = Path(place.file).resolve()
    for home in (os.environ.get("GITHUB_WORKSPACE") or Path.cwd(), Path.cwd()):
        inside = Path(home).resolve()
        if file.is_relative_to(inside) and "site-packages" not in file.parts:
            return FileLocation(str(file.relative_to(inside)), place.line)
    return None
