"""Reads records: files whose name ends in .gz or .xz are packed. An audit of 70 MB packs into 7 or 3 MB.

Hidden characters are shown in what consoles and pages tell.
"""

from __future__ import annotations

import dataclasses
import enum
import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from attnspec.core import texts
from attnspec.core.coverage import read_pairs
from attnspec.core.errors import FileLocation, RecordError, quote_value
from attnspec.core.nouns import Verdict
from attnspec.record.codec import from_line
from attnspec.record.events import (
    BlockJudged,
    Done,
    Event,
    ItemFinished,
    ItemStarted,
    KernelRanked,
    Key,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
    SubjectProbed,
    SubjectPut,
    key_of,
)
from attnspec.record.outcome import Outcome

_PACKINGS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (partial(gzip.compress, mtime=0), gzip.decompress),
    ".xz": (lzma.compress, lzma.decompress)}
"""By the end of a record's name, how it is packed and unpacked; the same text gives the same bytes."""

PACKED_SUFFIXES = tuple(_PACKINGS)
"""Names of packed records end so."""


def read_text(path: Path) -> str:
    """The text of a record, without a last line that was cut off in mid-write. Raises RecordError."""
    try:
        written = path.read_bytes()
        whole = _PACKINGS[path.suffix][1](written) if path.suffix in PACKED_SUFFIXES else written
    # a packed file that was cut off ends too early
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        why = getattr(problem, "strerror", None) or f"it is damaged ({problem})"
        raise RecordError(f"the record cannot be read: {why}.",
                          where=FileLocation(str(path))) from None
    whole = whole[:whole.rfind(b"\n") + 1]
    try:
        return whole.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = whole.count(b"\n", 0, problem.start) + 1
        raise BrokenLineError(f"this line is not UTF-8 text: byte 0x{whole[problem.start]:02x} cannot be read.",
                              where=FileLocation(str(path), line)) from None


def pack_text(path: Path, text: str) -> bytes:
    """Packs a text as the name of its file says; the same text gives the same bytes."""
    written = text.encode("utf-8")
    if path.suffix in PACKED_SUFFIXES:
        return _PACKINGS[path.suffix][0](written)
    return written


def unpacked_name(path: Path) -> Path:
    """The name of a record without the ending of a packed one."""
    return path.with_suffix("") if path.suffix in PACKED_SUFFIXES else path


RECORD_FORMAT = 1
Located = tuple[FileLocation, Event]
T = TypeVar("T")


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


class DamagedRecordError(RecordError):
    """The last line counts other outcomes than the lines before it hold."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, read back. `unfinished` are the items that were on trial when the record ends.

    A measurement of power has `puts` in place of outcomes, a campaign for false alarms `blocks`, a ranking `ranks`; an
    audit has `probes` beside them.
    """

    header: RunStarted
    subjects: tuple[SubjectKnown, ...]
    outcomes: tuple[Outcome, ...]
    footer: RunFinished | None
    unfinished: tuple[ItemStarted, ...] = ()
    puts: tuple[SubjectPut, ...] = ()
    blocks: tuple[BlockJudged, ...] = ()
    probes: tuple[SubjectProbed, ...] = ()
    ranks: tuple[KernelRanked, ...] = ()

    @property
    def finished_count(self) -> int:
        """How many items came to an end, of whatever kind."""
        return sum(map(len, (self.outcomes, self.puts, self.blocks, self.probes, self.ranks)))

    @property
    def tried_count(self) -> int:
        """How many items of the run were tried."""
        return self.finished_count - sum(each.verdict is Verdict.NOT_RUN for each in self.outcomes)

    @property
    def measures_attnspec(self) -> bool:
        """Whether this is a measurement of power or a campaign for false alarms, and judges no implementation."""
        return bool(self.puts or self.blocks or self.header.rules)

    @property
    def is_interrupted(self) -> bool:
        """Whether the run did not reach its end."""
        return self.footer is None or self.footer.interrupted


def read_record(path: Path) -> RunRecord:
    """The record in a file of JSON Lines. Raises a RecordError that names the file and the line."""
    return assemble_record(read_events(path), str(path))


def read_records(path: Path) -> tuple[RunRecord, ...]:
    """The records in a file: one, or those that `attnspec combine` joined, one run after the other.

    Raises a RecordError that names the file and the line.
    """
    runs: list[list[Located]] = [[]]
    for where, event in read_events(path):
        if isinstance(event, RunStarted) and runs[-1]:
            runs.append([])
        runs[-1].append((where, event))
    return tuple(assemble_record(run, str(path)) for run in runs)


def read_events(path: Path) -> Iterator[Located]:
    """Every event of a file of JSON Lines, packed or not, with its place. Raises RecordError."""
    return _read_located_events(read_text(path), str(path))


def _read_located_events(text: str, file: str) -> Iterator[Located]:
    lines = text.split("\n")
    # What follows the last line feed was cut off in mid-write: one event is lost, and the run was interrupted.
    for number, line in enumerate(lines[:-1], start=1):
        where = FileLocation(file, number)
        try:
            yield where, from_line(line)
        except RecordError as problem:
            raise BrokenLineError(str(problem), where=where) from None


def assemble_record(events: Iterable[Located], file: str) -> RunRecord:
    """The record of a stream of events, each with its place."""
    stream = iter(events)
    header = _read_header(stream, file)
    found = _RunSoFar()
    for where, event in stream:
        found.take(event, where)
        if isinstance(event, RunFinished):
            _check_totals(found, where)
    return found.record(header)


@dataclass(slots=True)
class _RunSoFar:
    """What was read so far."""

    cards: dict[str, SubjectKnown] = field(default_factory=dict)
    started: dict[Key, ItemStarted] = field(default_factory=dict)
    done: dict[Key, Done] = field(default_factory=dict)
    footer: RunFinished | None = None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of items."""
        return tuple(event.outcome for event in self.of_kind(ItemFinished))

    def of_kind(self, kind: type[T]) -> tuple[T, ...]:
        """Lists what ended in an event of this kind."""
        return tuple(event for event in self.done.values() if isinstance(event, kind))

    def record(self, header: RunStarted) -> RunRecord:
        """The record, with the items on trial that have no outcome yet."""
        unfinished = tuple(event for key, event in self.started.items() if key not in self.done)
        return RunRecord(header, tuple(self.cards.values()), self.outcomes, self.footer,
                         unfinished,
                         self.of_kind(SubjectPut), self.of_kind(BlockJudged),
                         self.of_kind(SubjectProbed),
                         self.of_kind(KernelRanked))

    def take(self, event: Event, where: FileLocation) -> None:
        """Take one event after the header. Raises DuplicateItemError."""
        match event:
            case SubjectKnown(card=card):
                _check_pairs(card.taken, where)
                self.cards[card.id] = event
            case ItemStarted(subject=subject, clause=clause, dtype=name):
                self.started[subject, clause, name] = event
            case RunFinished():
                self.footer = event
            case RunStarted():
                raise DuplicateItemError("a second run starts here: one file holds one run.",
                                         where=where)
            case SubjectCompiles():
                pass  # it is for whoever waits
            case _:
                self._finish_job(event, where)

    def _finish_job(self, event: Done, where: FileLocation) -> None:
        if isinstance(event, ItemFinished):
            _check_pairs(event.outcome.met, where)
        if (key := key_of(event)) in self.done:
            raise DuplicateItemError(f"{'-'.join(key)} has a second outcome here.", where=where)
        self.done[key] = event


def _check_totals(found: _RunSoFar, where: FileLocation) -> None:
    """Raise DamagedRecordError where verdicts were lost or changed after they were counted. A measurement of power, a
    campaign and a ranking count something else.
    """
    counted = {} if found.footer is None else found.footer.counts
    if not counted or any(map(found.of_kind, (SubjectPut, BlockJudged, KernelRanked))):
        return
    held = Counter(each.verdict.value for each in found.outcomes)
    words = [word
             for word in (each.value for each in Verdict) if counted.get(word, 0) != held[word]]
    if words and (found.outcomes or not found.done):
        told = ", ".join(f"{counted.get(word, 0)} {word}, where the lines before it have {held[word]}"
                         for word in words)
        raise DamagedRecordError(f"the record is damaged: its last line counts {told}. "
                                 "Lines were lost or changed "
                                 "after the run; judge again, or take the file from where it was written.",
                                 where=where)


def _check_pairs(written: str, where: FileLocation) -> None:
    """Raise BrokenLineError for pairs of sizes and keywords that nobody can read."""
    try:
        read_pairs(written)
    except ValueError:
        raise BrokenLineError(f"{quote_value(written)} stands for no pairs of sizes and keywords: "
                              "it is not base85 text.",
                              where=where) from None


def _read_header(stream: Iterator[Located], file: str) -> RunStarted:
    first = next(stream, None)
    if first is None:
        raise EmptyRecordError("the record holds no whole line: its run ended before it began, or it was cut off.",
                               where=FileLocation(file))
    where, event = first
    if not isinstance(event, RunStarted):
        raise MissingHeaderError("a record starts with an event 'run_started'.", where=where)
    if event.format != RECORD_FORMAT:
        raise UnknownFormatError(
            f"the record has format {event.format}, and this version of attnspec reads format {RECORD_FORMAT}.",
            where=where)
    return event


def show_hidden(thing: T) -> T:
    """The same with every text in it as `characters.escape_hidden` shows it; the very same where nothing is hidden."""
    shown: T = _with_visible_text(thing)
    return shown


_WITHOUT_TEXT = (int, float, enum.Enum, type(None))


def _with_visible_text(thing: Any) -> Any:  # noqa: ANN401  (whatever a record holds)
    if not thing:  # most fields of most outcomes
        return thing
    if isinstance(thing, str) and not isinstance(thing, enum.Enum):
        # most texts are plain, and to see that takes a fifth of the search
        return thing if thing.isascii() and thing.isprintable() else texts.escape_hidden(thing)
    if isinstance(thing, _WITHOUT_TEXT):
        return thing
    if isinstance(thing, tuple | list):
        parts = [_with_visible_text(each) for each in thing]
        return thing if _are_same(parts, thing) else type(thing)(parts)
    if isinstance(thing, Mapping):
        shown = {_with_visible_text(key): _with_visible_text(value)
                 for key, value in thing.items()}
        is_same = (_are_same(shown.keys(), thing.keys()) and _are_same(shown.values(),
                                                                       thing.values()))
        return thing if is_same else shown
    kind: type = type(thing)
    shown = {name: _with_visible_text(getattr(thing, name)) for name in _field_names(kind)}
    changed = {name: new for name, new in shown.items() if new is not getattr(thing, name)}
    return dataclasses.replace(thing, **changed) if changed else thing


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; none of anything else."""
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return ()


def _are_same(new: Iterable[object], old: Iterable[object]) -> bool:
    """Whether each is the very same object as the one in its place."""
    return all(one is other for one, other in zip(new, old, strict=True))
