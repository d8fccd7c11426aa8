"""What a subject says during a call: on descriptor 2, where libraries write, on `sys.stderr`, and in warnings."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import warnings
from typing import Any, List

LONGEST = 10000  # characters; a library in a loop must not fill a record


class Said:
    """The text, complete once the call is over."""

    def __init__(self) -> None:
        self.parts: List[str] = []

    @property
    def text(self) -> str:
        """Everything said, in one piece."""
        return "".join(self.parts)[:LONGEST].encode(errors="backslashreplace").decode()


class kept:  # noqa: N801  (reads as what `with` does)
    """Collects what is said inside. Warnings raise nothing here, whatever the process has set.

    `sys.stderr` and descriptor 2 lead into a file meanwhile: a real one, which children of the subject inherit.
    """

    def __enter__(self) -> Said:
        self._file, self._stream, self._said = _file(), _text(), Said()
        self._before = _led(self._file)
        self._stderr, sys.stderr = sys.stderr, self._stream
        self._warnings = warnings.catch_warnings(record=True)
        self._warned = self._warnings.__enter__()
        warnings.simplefilter("default")
        return self._said

    def __exit__(self, *raised: Any) -> None:
        self._warnings.__exit__(*raised)
        sys.stderr = self._stderr
        _lead_back(self._before)
        with contextlib.suppress(ValueError):  # the subject has closed it
            self._stream.flush()
        self._said.parts += [_drained(self._file), *map(_told, self._warned or ())]


def _told(warning: Any) -> str:
    try:
        return "{}: {}\n".format(warning.category.__name__, warning.message)
    except BaseException:
        return ""


_OUT_OF_REACH = 10
"""From this number on descriptors are no standard streams, which a subject may close at any time, again and again."""

_DUPLICATE = getattr(fcntl, "F_DUPFD_CLOEXEC", fcntl.F_DUPFD)  # PyPy does not know the first

_files: List[int] = []
_texts: List[Any] = []


def keep_in(path: str) -> None:
    """Keep what is said in this file, so that the last words of a process that dies are found there."""
    _files[:] = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600)]


def _file() -> int:
    """Where what is said goes: a file without a name where nobody has named one."""
    if not _files:
        file, name = tempfile.mkstemp()
        os.unlink(name)
        _files.append(file)
    return _files[0]


def _text() -> Any:
    """The file as a stream of text, line by line, so that last words are found where a process dies."""
    if not _texts or _texts[0].closed:
        _texts[:] = [open(_files[0], "w", buffering=1, encoding="utf-8",  # noqa: SIM115  (see above)
                          errors="backslashreplace", closefd=False)]
    return _texts[0]


def _led(file: int) -> int:
    """Lead descriptor 2 into the file; where it led before, -1 for nowhere."""
    try:
        before = fcntl.fcntl(2, _DUPLICATE, _OUT_OF_REACH)
    except OSError:  # the process has no stderr at all
        before = -1
    os.dup2(file, 2)
    return before


def _lead_back(before: int) -> None:
    with contextlib.suppress(OSError):  # the subject has closed it
        os.dup2(before, 2)
        os.close(before)


def _drained(file: int) -> str:
    """What stands in the file, which is empty afterwards."""
    if not os.lseek(file, 0, os.SEEK_END):
        return ""
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, LONGEST).decode(errors="replace")
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    return text
