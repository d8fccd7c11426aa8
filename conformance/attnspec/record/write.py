"""Writes a record: one line an event, flushed at once, so that nothing that happened is lost with the process.

A campaign goes on in its own record, and records of several environments are combined into one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from attnspec.core.errors import Place, RecordError, UsageError
from attnspec.record.codec import to_line
from attnspec.record.events import Done, Event, ItemFinished, ItemStarted, RunStarted, SubjectKnown
from attnspec.record.read import DuplicateItemError, RunRecord, packed, read_events, read_record, read_records


class RecordWriter:
    """A handler that writes JSON Lines to a file (folders are made), or to a stream that stays open.

    goes_on: the file holds a run that this one continues (see `record/write.py`). It keeps the header it has: a record
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


def reopen(path: Path) -> RunRecord:
    """The record, rewritten so that more can be appended: the header, known subjects, blocks judged and subjects put.

    Left out are the footer, what was lost, and a last line that was cut off. The old file stands until the new one is
    complete. Raises RecordError, and UsageError for a file that cannot be written.
    """
    record = read_record(path)
    complete = path.with_name(f"{path.name}.part")
    try:
        complete.write_text("".join(f"{to_line(event)}\n" for event in _kept(record)), encoding="utf-8")
        os.replace(complete, path)
    except OSError as problem:
        raise UsageError(f"the record {path} cannot be written: {problem.strerror}.") from None
    return read_record(path)


def _kept(record: RunRecord) -> Iterator[Event]:
    yield record.header
    yield from (SubjectKnown(known.card) for known in record.subjects if not known.broken)
    yield from (block for block in record.blocks if not block.lost)
    yield from (put for put in record.puts if not put.lost)


_OF_THE_MACHINE = frozenset({"workers", "cpus", "threads"})
"""What of an environment no verdict depends on."""


class MismatchedSpecError(RecordError):
    """Two records were made by different laws."""


def combine(paths: Sequence[Path], out: Path, *, retold: Callable[[Event], Event] = lambda event: event) -> None:
    """Write the records into one file, which `read_records` reads. retold: each event as it is to be written.

    Raises RecordError for a bad record, MismatchedSpecError, DuplicateItemError, and UsageError where `out` cannot be
    written. A file that is there already stays as it was until the new one is complete.
    """
    lines = [to_line(retold(event)) for event in _events(paths)]
    complete = out.with_name(f"{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        complete.write_bytes(packed(out, "".join(f"{line}\n" for line in lines)))
        os.replace(complete, out)
    except OSError as problem:
        raise UsageError(f"the record {out} cannot be written: {problem.strerror}.") from None


def _events(paths: Sequence[Path]) -> Iterator[Event]:
    joint = _Joint()
    for path in paths:
        unfinished = {event for record in read_records(path) for event in record.unfinished}
        for where, event in read_events(path):
            joint.take(event, where)
            if not isinstance(event, ItemStarted) or event in unfinished:  # that an item began, its end says
                yield event


@dataclass(slots=True)
class _Joint:
    """What was read so far: the law, and where everything was judged."""

    law: tuple[str, Place] | None = None
    environment: frozenset[tuple[str, str]] = frozenset()
    judged: dict[tuple[object, ...], Place] = field(default_factory=dict)

    def take(self, event: Event, where: Place) -> None:
        """Take one event of a record. Raises MismatchedSpecError and DuplicateItemError."""
        if isinstance(event, RunStarted):
            self._hold_to(event.spec_digest, where)
            self.environment = frozenset(pair for pair in event.environment.items() if pair[0] not in _OF_THE_MACHINE)
        elif isinstance(event, Done):
            self._enter(event, where)

    def _hold_to(self, digest: str, where: Place) -> None:
        known, place = self.law = self.law or (digest, where)
        if digest != known:
            raise MismatchedSpecError(f"this was judged by the law {digest[:12]}, and {place.file} by {known[:12]}. "
                                      "Judge both by the same.", where=Place(where.file))

    def _enter(self, event: Done, where: Place) -> None:
        key = (*_of(event), self.environment)
        if key in self.judged:
            raise DuplicateItemError(f"{'-'.join(_of(event))} was judged in the same environment at "
                                     f"{self.judged[key]} already. Leave one of the records out.", where=where)
        self.judged[key] = where


def _of(event: Done) -> tuple[str, str, str]:
    """Subject, part and dtype."""
    if isinstance(event, ItemFinished):
        outcome = event.outcome
        return outcome.subject, outcome.clause, outcome.dtype.value
    return event.subject, event.part, event.dtype.value
