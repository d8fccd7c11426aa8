"""Reads a record back. A record without footer is that of an interrupted run, which is no error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnspec.ground.errors import Place, RecordError
from attnspec.record.events import Event, ItemFinished, ItemStarted, RunFinished, RunStarted, SubjectKnown
from attnspec.record.lines import from_line
from attnspec.record.outcome import Outcome

FORMAT = 1


class EmptyRecordError(RecordError):
    """The file holds no line."""


class BrokenLineError(RecordError):
    """A line is no event."""


class MissingHeaderError(RecordError):
    """The first line is no run_started."""


class UnknownFormatError(RecordError):
    """The record was written in a format that this version does not read."""


class DuplicateItemError(RecordError):
    """An item has two outcomes: two runs were written into one file."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, read back. `unfinished` are the items that were on trial when the record ends."""

    header: RunStarted
    subjects: tuple[SubjectKnown, ...]
    outcomes: tuple[Outcome, ...]
    footer: RunFinished | None
    unfinished: tuple[ItemStarted, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether the run did not reach its end."""
        return self.footer is None or self.footer.interrupted


def read_record(path: Path) -> RunRecord:
    """The record in a file of JSON Lines. Raises a RecordError that names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise RecordError(f"the record cannot be read: {problem}.", where=Place(str(path))) from None
    return assemble(_events(text, str(path)), str(path))


def _events(text: str, file: str) -> Iterator[tuple[Place, Event]]:
    lines = text.split("\n")
    # A last line without a line feed was cut off in mid-write: what is lost is one event, and the run was interrupted.
    for number, line in enumerate(lines[:-1], start=1):
        where = Place(file, number)
        try:
            yield where, from_line(line)
        except RecordError as problem:
            raise BrokenLineError(str(problem), where=where) from None


def assemble(events: Iterable[tuple[Place, Event]], file: str) -> RunRecord:
    """The record of a stream of events, each with its place."""
    stream = iter(events)
    header = _header(stream, file)
    cards: dict[str, SubjectKnown] = {}
    started: dict[tuple[str, str, str], ItemStarted] = {}
    outcomes: dict[tuple[str, str, str], Outcome] = {}
    footer: RunFinished | None = None
    for where, event in stream:
        match event:
            case SubjectKnown():
                cards[event.card.id] = event
            case ItemStarted():
                started[event.subject, event.clause, event.dtype] = event
            case ItemFinished():
                _enter(outcomes, event.outcome, where)
            case RunFinished():
                footer = event
            case RunStarted():
                raise DuplicateItemError("a second run starts here: one file holds one run.", where=where)
    unfinished = tuple(event for key, event in started.items() if key not in outcomes)
    return RunRecord(header, tuple(cards.values()), tuple(outcomes.values()), footer, unfinished)


def _header(stream: Iterator[tuple[Place, Event]], file: str) -> RunStarted:
    first = next(stream, None)
    if first is None:
        raise EmptyRecordError("the record is empty: the run ended before it began.", where=Place(file))
    where, event = first
    if not isinstance(event, RunStarted):
        raise MissingHeaderError("a record starts with an event 'run_started'.", where=where)
    if event.format != FORMAT:
        raise UnknownFormatError(
            f"the record has format {event.format}, and this version of attnspec reads format {FORMAT}.", where=where)
    return event


def _enter(outcomes: dict[tuple[str, str, str], Outcome], outcome: Outcome, where: Place) -> None:
    key = (outcome.subject, outcome.clause, outcome.dtype.value)
    if key in outcomes:
        raise DuplicateItemError(f"{'-'.join(key)} has a second outcome here.", where=where)
    outcomes[key] = outcome
