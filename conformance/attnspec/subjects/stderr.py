"""What a subject says on the way is kept: file descriptor 2 (libraries write there), `sys.stderr` and warnings."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from attnspec.core.paths import portable

_LONGEST = 10_000  # characters; a library in a loop must not fill a record


@dataclass(slots=True)
class Said:
    """The text, complete once the call is over."""

    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Everything said, in one piece."""
        said = "".join(self.parts)[:_LONGEST]
        return portable(said) if said else ""


def keep_in(path: Path) -> None:
    """Keep what goes to descriptor 2 in this file, so that the last words of a process that dies are found there."""
    _file.cache_clear()
    _path[:] = [path]


@contextlib.contextmanager
def kept_stderr() -> Iterator[Said]:
    """Collect what is said inside. Warnings raise nothing here, whatever the process has set."""
    said = Said()
    python_level = io.StringIO()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        try:
            with contextlib.redirect_stderr(python_level), _descriptor_kept(said):
                yield said
        finally:
            said.parts.append(python_level.getvalue())
            said.parts.extend(f"{warning.category.__name__}: {warning.message}\n" for warning in warned)


@contextlib.contextmanager
def _descriptor_kept(said: Said) -> Iterator[None]:
    try:
        saved = os.dup(2)
    except OSError:  # the process has no stderr at all
        yield
        return
    file = _file()
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        said.parts.append(_drained(file))


def _drained(file: IO[bytes]) -> str:
    """What stands in the file, which is empty afterwards."""
    if not os.lseek(file.fileno(), 0, os.SEEK_END):
        return ""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    text = os.read(file.fileno(), _LONGEST).decode(errors="replace")
    os.ftruncate(file.fileno(), 0)
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return text


_path: list[Path] = []


@cache
def _file() -> IO[bytes]:
    """One file for all calls of the process."""
    sys.stderr.flush()
    return _path[0].open("w+b") if _path else tempfile.TemporaryFile()
