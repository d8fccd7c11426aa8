"""What is written of a run once it is over: its events are kept until then."""

from __future__ import annotations

from attnspec.core.errors import FileLocation
from attnspec.record.events import Event
from attnspec.record.read import RunRecord, assemble


class WholeRun:
    """The part of a handler that keeps the events of a run for its end."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def handle(self, event: Event) -> None:
        """Keep it."""
        self._events.append(event)

    @property
    def is_begun(self) -> bool:
        """Whether there is anything to tell: a run may be stopped before its first event."""
        return bool(self._events)

    def record(self, name: str) -> RunRecord:
        """The record of the run, as it would be read from a file of this name."""
        where = FileLocation(name)
        return assemble(((where, event) for event in self._events), name)
