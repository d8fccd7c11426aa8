"""Puts a record in the order of its plan: what is carried out elsewhere ends in whatever order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.files import write_whole
from attnspec.record.codec import to_line
from attnspec.record.events import Done, Event, ItemStarted, Key, RunFinished, SubjectKnown, key_of
from attnspec.record.read import read_events

Position = tuple[float, int]


def put_in_order(path: Path, done: Sequence[Done]) -> None:
    """Rewrite the record as one worker would have written it: jobs in this order, a subject's card after its first job
    has begun. What the record had before stays in front. A pipe or a device is left alone.

    Raises RecordError, and UsageError where the file cannot be written; then it stays as it was.
    """
    if not path.is_file():
        return
    places = _Places.of(done)
    events = sorted((event for _, event in read_events(path)), key=places.of_event)
    write_whole(path, "".join(f"{to_line(event)}\n" for event in events), "record")


@dataclass(frozen=True, slots=True)
class _Places:
    """The place of each job, and of the first of each subject."""

    jobs: dict[Key, int]
    subjects: dict[str, int]

    @classmethod
    def of(cls, done: Sequence[Done]) -> _Places:
        """In this order."""
        jobs = {key_of(each): place for place, each in enumerate(done)}
        subjects: dict[str, int] = {}
        for (subject, _, _), place in jobs.items():
            subjects.setdefault(subject, place)
        return cls(jobs, subjects)

    def of_event(self, event: Event) -> Position:
        """Where it belongs; what belongs to no job of this run comes after the header."""
        if isinstance(event, Done):
            return self.jobs.get(key_of(event), -1), 2
        if isinstance(event, RunFinished):
            return math.inf, 0
        if isinstance(event, SubjectKnown):
            return self.subjects.get(event.card.id, -1), 1
        if isinstance(event, ItemStarted):
            return self.jobs.get((event.subject, event.clause, event.dtype), -1), 0
        return -math.inf, 0
