"""Files that a command writes are told apart before anything runs, and the user's own: one written over is lost."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from attnspec.core.errors import UsageError

_BEGIN: Mapping[str, tuple[str, bytes]] = {
    "--record": ("a record", b'{"event"'), "--html": ("a page", b"<"), "--junit": ("a JUnit file", b"<"),
    "--badge": ("a badge", b"{")}
"""By option, what it writes, and how such a file begins."""


def keep_apart(written: Mapping[str, Path | str | None], read: Iterable[Path | str] = ()) -> None:
    """Raise UsageError where two options name one file to write, or one of them a file that is read, or one that begins
    otherwise than what it writes.

    written: by option.  Links and other spellings are seen through.
    """
    taken: dict[object, tuple[str, object]] = {_file(path): ("", path) for path in read}
    for option, path in written.items():
        if path is None or not str(path) or _is_nobodys(path):
            continue
        other, spelled = taken.setdefault(_file(path), (option, path))
        if not other:
            raise UsageError(f"{option} {path} would write over {spelled}, which is read. Name another file.")
        if other != option:
            raise UsageError(f"{other} {spelled} and {option} {path} are one file. Name two.")
        _spare(option, Path(path))


def _spare(option: str, path: Path) -> None:
    """Raise UsageError for a file with something in it that no such option has written."""
    what, begin = _BEGIN.get(option, ("", b""))
    found = b""
    if path.is_file():
        with contextlib.suppress(OSError), path.open("rb") as file:  # whoever writes it says why it cannot
            found = file.read(len(begin))
    if not begin.startswith(found):
        raise UsageError(f"{option} {path} would write over a file that is not {what}. Name another, or delete it.")


def _file(path: Path | str) -> object:
    """What tells a file from others: its number where there is one, else its name without links."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _is_nobodys(path: Path | str) -> bool:
    """Whether it is a device, as /dev/null: nothing is lost there that was not meant to be."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False
