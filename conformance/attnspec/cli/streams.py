"""Standard output and standard error of the command, which may be closed or full while it speaks.

Whoever stops listening (`attnspec check … | head -1`) must not cost a run its record, and what was not told is no
verdict. So the streams fall silent where they cannot be written, and the command ends with exit code 2.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

_lost_streams: dict[str, OSError] = {}


def output_error() -> OSError | None:
    """Why not all could be told on standard output; None where all was. Known once it is flushed."""
    return _lost_streams.get("stdout")


@contextmanager
def patient_streams() -> Iterator[None]:
    """While this context is open, the process's own standard streams raise nothing. Streams that stand in for them are
    left alone.
    """
    _open_descriptors()
    _lost_streams.clear()
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):
            setattr(sys, name, _patient(name, getattr(sys, name)))
    try:
        yield
    finally:
        with suppress(OSError):  # a stand-in may be broken, too
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _open_descriptors() -> None:
    """Let a standard stream that was closed (`>&-`) lead nowhere: else the next file that is opened has its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # workers need theirs as well
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            stream = os.fdopen(number, "w", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _patient(name: str, stream: TextIO) -> io.TextIOWrapper:
    stream.flush()
    raw = _PatientStream(name, stream)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors,
                            line_buffering=name == "stderr" or stream.isatty())


class _PatientStream(io.RawIOBase):
    """What lies under a stream: writes, until that fails; then swallows."""

    name: str

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self._raw = name, cast("io.RawIOBase", getattr(stream.buffer, "raw", stream.buffer))

    def write(self, data: object, /) -> int:
        """As many bytes as were taken; all of them once nobody takes any."""
        view = memoryview(cast("bytes", data))
        if self.name not in _lost_streams:
            try:
                return self._raw.write(view) or 0
            except OSError as problem:
                _lost_streams[self.name] = problem
        return len(view)

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._raw.fileno()

    def isatty(self) -> bool:
        """Whether a terminal listens."""
        return self._raw.isatty()
