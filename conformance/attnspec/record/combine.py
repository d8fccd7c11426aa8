"""Records of several environments as one file: run after run, each with its own header and environment.

What was judged twice in the same environment, or by different laws, is no audit: such records are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnspec.ground.errors import Place, RecordError, UsageError
from attnspec.record.events import Done, Event, ItemFinished, ItemStarted, RunStarted
from attnspec.record.lines import to_line
from attnspec.record.packed import packed
from attnspec.record.read import DuplicateItemError, read_events, read_records

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
