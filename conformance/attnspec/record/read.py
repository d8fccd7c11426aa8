"""Reads records, which are packed if their name ends in .gz or .xz.

Hidden characters are made visible for consoles and pages.
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
    """The text of a record, without a last line that was cut off. Raises RecordError."""
    try:
        content = path.read_bytes()
        if path.suffix in PACKED_SUFFIXES:
            content = _PACKINGS[path.suffix][1](content)
    # a packed file that was cut off ends too early
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        why = getattr(problem, "strerror", None) or f"it is damaged ({problem})"
        raise RecordError(f"the record cannot be read: {why}.",
                          where=FileLocation(str(path))) from None
    content = content[:content.rfind(b"\n") + 1]
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise BrokenLineError(f"this line is not UTF-8 text: byte 0x{content[problem.start]:02x} "
                              "cannot be read.", where=FileLocation(str(path), line)) from None


def pack_text(path: Path, text: str) -> bytes:
    """Packs a text as the name of its file says; the same text gives the same bytes."""
    content = text.encode("utf-8")
    if path.suffix in PACKED_SUFFIXES:
        return _PACKINGS[path.suffix][0](content)
    return content


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
    """The last line counts other outcomes than the lines before it have."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, as its record has it.

    unfinished: items that were begun and have no outcome. In place of outcomes, a measurement of
    power has puts, a campaign for false alarms blocks, and a ranking ranks; an audit also has
    probes.
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
        """How many items of any kind were finished."""
        return sum(map(len, (self.outcomes, self.puts, self.blocks, self.probes, self.ranks)))

    @property
    def tried_count(self) -> int:
        """How many items of the run were tried."""
        return self.finished_count - sum(each.verdict is Verdict.NOT_RUN for each in self.outcomes)

    @property
    def measures_attnspec(self) -> bool:
        """Whether this measures attnspec itself: its power or its false alarms."""
        return bool(self.puts or self.blocks or self.header.rules)

    @property
    def is_interrupted(self) -> bool:
        """Whether the run did not reach its end."""
        return self.footer is None or self.footer.interrupted


def read_record(path: Path) -> RunRecord:
    """Reads the record of one run. Raises a RecordError that names the file and the line."""
    return assemble_record(read_events(path), str(path))


def read_records(path: Path) -> tuple[RunRecord, ...]:
    """Reads the runs of a file: one, or those that `attnspec combine` joined. Raises a RecordError
    that names the file and the line.
    """
    runs: list[list[Located]] = [[]]
    for where, event in read_events(path):
        if isinstance(event, RunStarted) and runs[-1]:
            runs.append([])
        runs[-1].append((where, event))
    return tuple(assemble_record(run, str(path)) for run in runs)


def read_events(path: Path) -> Iterator[Located]:
    """Yields every event of a file with its place. Raises RecordError."""
    return _read_located_events(read_text(path), str(path))


def _read_located_events(text: str, file: str) -> Iterator[Located]:
    lines = text.split("\n")
    # what follows the last line feed was cut off while it was written, and the run was interrupted
    for number, line in enumerate(lines[:-1], start=1):
        where = FileLocation(file, number)
        try:
            yield where, from_line(line)
        except RecordError as problem:
            raise BrokenLineError(str(problem), where=where) from None


def assemble_record(events: Iterable[Located], file: str) -> RunRecord:
    """Makes a record of events with their places. Raises RecordError."""
    stream = iter(events)
    header = _read_header(stream, file)
    run = _RunSoFar()
    for where, event in stream:
        run.take(event, where)
        if isinstance(event, RunFinished):
            _check_totals(run, where)
    return run.record(header)


@dataclass(slots=True)
class _RunSoFar:
    """What was read of a run so far."""

    cards: dict[str, SubjectKnown] = field(default_factory=dict)
    started: dict[Key, ItemStarted] = field(default_factory=dict)
    done: dict[Key, Done] = field(default_factory=dict)
    footer: RunFinished | None = None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of items."""
        return tuple(event.outcome for event in self.of_kind(ItemFinished))

    def of_kind(self, kind: type[T]) -> tuple[T, ...]:
        """Lists the jobs that ended in an event of this kind."""
        return tuple(event for event in self.done.values() if isinstance(event, kind))

    def record(self, header: RunStarted) -> RunRecord:
        """Makes the record, with the items that were begun and have no outcome."""
        unfinished = tuple(event for key, event in self.started.items() if key not in self.done)
        return RunRecord(header, tuple(self.cards.values()), self.outcomes, self.footer,
                         unfinished, self.of_kind(SubjectPut), self.of_kind(BlockJudged),
                         self.of_kind(SubjectProbed), self.of_kind(KernelRanked))

    def take(self, event: Event, where: FileLocation) -> None:
        """Takes one event after the header. Raises DuplicateItemError."""
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


def _check_totals(run: _RunSoFar, where: FileLocation) -> None:
    """Raise DamagedRecordError if verdicts were lost or changed after they were counted. Records
    of power, campaigns and rankings count something else.
    """
    expected = {} if run.footer is None else run.footer.counts
    if not expected or any(map(run.of_kind, (SubjectPut, BlockJudged, KernelRanked))):
        return
    counts = Counter(each.verdict.value for each in run.outcomes)
    differences = [f"{expected.get(word, 0)} {word}, where the lines before it have {counts[word]}"
                   for word in (each.value for each in Verdict)
                   if expected.get(word, 0) != counts[word]]
    if differences and (run.outcomes or not run.done):
        raise DamagedRecordError(f"the record is damaged: its last line counts {', '.join(differences)}. "
                                 "Lines were lost or changed after the run; judge again, or take the "
                                 "file from where it was written.", where=where)


def _check_pairs(written: str, where: FileLocation) -> None:
    """Raise BrokenLineError for a text that holds no pairs of sizes and keywords."""
    try:
        read_pairs(written)
    except ValueError:
        raise BrokenLineError(f"{quote_value(written)} stands for no pairs of sizes and keywords: "
                              "it is not base85 text.", where=where) from None


def _read_header(stream: Iterator[Located], file: str) -> RunStarted:
    first = next(stream, None)
    if first is None:
        raise EmptyRecordError("the record holds no whole line: its run ended before it began, or it "
                               "was cut off.", where=FileLocation(file))
    where, event = first
    if not isinstance(event, RunStarted):
        raise MissingHeaderError("a record starts with an event 'run_started'.", where=where)
    if event.format != RECORD_FORMAT:
        raise UnknownFormatError(f"the record has format {event.format}, and this version of attnspec "
                                 f"reads format {RECORD_FORMAT}.", where=where)
    return event


def show_hidden(thing: T) -> T:
    """Makes hidden characters visible in all texts of an object. Returns the same object if there
    are none.
    """
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
        keys, values = ([_with_visible_text(each) for each in some]
                        for some in (thing.keys(), thing.values()))
        is_same = _are_same(keys, thing.keys()) and _are_same(values, thing.values())
        return thing if is_same else dict(zip(keys, values, strict=True))
    changes = {}
    kind: type = type(thing)
    for name in _field_names(kind):
        value = getattr(thing, name)
        visible = _with_visible_text(value)
        if visible is not value:
            changes[name] = visible
    return dataclasses.replace(thing, **changes) if changes else thing


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return ()


def _are_same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))
