"""Writes a record: one line an event, flushed at once, so that nothing that happened is lost with the process."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from attnspec.ground.errors import UsageError
from attnspec.record.events import Event, RunStarted
from attnspec.record.lines import to_line


class RecordWriter:
    """A handler that writes JSON Lines to a file (folders are made), or to a stream that stays open.

    goes_on: the file holds a run that this one continues (see `record/resume.py`). It keeps the header it has: a record
    has one, and one footer.
    """

    def __init__(self, path: Path | None = None, *, stream: TextIO | None = None, goes_on: bool = False) -> None:
        self._path = path
        self._stream = stream
        self._goes_on = goes_on

    def start(self) -> None:
        """Open the file. Raises UsageError where that is impossible."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._path.open("a" if self._goes_on else "w", encoding="utf-8")
        except OSError as problem:
            raise UsageError(f"the record {self._path} cannot be written: {problem.strerror}.") from None

    def handle(self, event: Event) -> None:
        """Append one line."""
        if self._stream is not None and not (self._goes_on and isinstance(event, RunStarted)):
            self._stream.write(to_line(event) + "\n")
            self._stream.flush()

    def shutdown(self) -> None:
        """Close the file, if it is ours."""
        if self._path is not None and self._stream is not None:
            self._stream.close()
