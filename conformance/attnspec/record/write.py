"""Writes records, one line an event, each flushed at once so that a dead process loses nothing.

It also resumes records, combines those of several environments, or of all shards of a run, and
sorts what many workers wrote into the order of the plan.
"""

from __future__ import annotations

import enum
import fcntl
import hashlib
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from attnspec.core.errors import FileLocation, RecordError, UsageError
from attnspec.core.paths import cannot_write, write_whole
from attnspec.core.plan import Plan, Shard, read_shard
from attnspec.record.codec import encode, to_line
from attnspec.record.events import (
    Done,
    Event,
    Handler,
    ItemFinished,
    ItemStarted,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
    SubjectProbed,
    key_of,
)
from attnspec.record.read import DuplicateItemError, RunRecord, pack_text, read_events, read_record, read_records

Group = tuple[str, str]
"""A subject and a dtype: its clauses share a process and remembered answers, so they stay together."""

_PLAN_PLACES: Mapping[str, Any] = {
    "implementations": (), "spec": "", "spec_add": (), "baseline": "", "python": "", "host": ""}
"""Fields of a plan that are places, which differ between machines, with a value for all machines."""

DIGEST_DIGITS = 16  # of a plan

Part = tuple[Path, Shard]


class ShardsError(RecordError):
    """A part of a run is missing, is there twice, or belongs to another run."""


def plan_digest(plan: Plan, spec_digest: str, shares: Sequence[Sequence[Group]]) -> str:
    """Digests what the shards of one run share on any machine: plan, spec, and who does what."""
    facts = [encode(replace(plan, **_PLAN_PLACES)), spec_digest, encode(shares)]
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def check_whole(headers: Sequence[tuple[Path, RunStarted]]) -> None:
    """Raise ShardsError unless every divided run is there with each of its parts, once."""
    runs: dict[str, list[Part]] = {}
    for path, header in headers:
        if header.shard:
            runs.setdefault(header.plan_digest, []).append((path, read_shard(header.shard)))
    for parts in runs.values():
        _check_once(parts)
    broken = [digest for digest, parts in runs.items() if len(parts) < parts[0][1].count]
    if broken and len(runs) > 1:
        raise _foreign_part_error(runs, broken)
    for digest in broken:
        raise _missing_parts_error(runs[digest])


def _check_once(parts: Sequence[Part]) -> None:
    places: dict[Shard, Path] = {}
    for path, shard in parts:
        if shard in places:
            raise ShardsError(f"this is shard {shard} of a run, and so is {places[shard]}. "
                              "Leave one of them out.", where=FileLocation(str(path)))
        places[shard] = path


def _missing_parts_error(parts: Sequence[Part]) -> ShardsError:
    path, first = parts[0]
    missing = set(range(1, first.count + 1)) - {shard.index for _, shard in parts}
    names = _join_names([f"{index}/{first.count}" for index in sorted(missing)])
    are = "is" if len(missing) == 1 else "are"
    return ShardsError(f"this is shard {first} of a run, of which {names} {are} missing. Join the "
                       "records of all shards.", where=FileLocation(str(path)))


def _foreign_part_error(runs: Mapping[str, Sequence[Part]], broken: Sequence[str]) -> ShardsError:
    """The error for parts of several runs, about the run with the fewest parts."""
    stray = min(broken, key=lambda digest: len(runs[digest]))
    other = next(digest for digest in runs if digest != stray)
    [(path, shard), *_], [(other_path, other_shard), *_] = runs[stray], runs[other]
    return ShardsError(f"this is shard {shard} of the run {stray}, but {other_path} is shard {other_shard} of "
                       f"the run {other}: their options, timings, subjects or clauses differ. "
                       "Judge all shards by one command.", where=FileLocation(str(path)))


def _join_names(names: Sequence[str], most: int = 5) -> str:
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last


class WriteMode(enum.Enum):
    """What a run does with a file of the record's name. REPLACE: replaces it.  NEW: demands that
    there is none.  GO_ON: appends to it, and keeps its header.
    """

    REPLACE = "replace"
    NEW = "new"
    GO_ON = "go on"


_FLAGS: Mapping[WriteMode, int] = {WriteMode.REPLACE: os.O_CREAT,
                                   WriteMode.NEW: os.O_CREAT | os.O_EXCL,
                                   WriteMode.GO_ON: os.O_CREAT}


class RecordWriter:
    """A handler that writes JSON Lines to a file, and locks it meanwhile. Makes its folder. A run
    that is refused before its first line leaves what was there: nothing, or an earlier record.
    """

    def __init__(self, path: Path, mode: WriteMode = WriteMode.REPLACE) -> None:
        self._path, self._mode = path, mode
        self._descriptor: int | None = None
        self._problem: OSError | None = None
        self._lines = 0
        self._is_made_here = False

    def start(self) -> None:
        """Opens the file. Raises UsageError if it cannot, or another run writes to it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._is_made_here = not self._path.exists()
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | _FLAGS[self._mode],
                                       0o666)
            if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                self._claim_file(self._descriptor)
        except OSError as problem:
            raise cannot_write(self._path, "record", problem) from None

    def _claim_file(self, descriptor: int) -> None:
        """Locks the file for this run."""
        try:
            lock_file(descriptor, self._path)
        except UsageError:
            self._is_made_here = False  # by the other run
            self.shutdown()
            raise

    def handle(self, event: Event) -> None:
        """Appends one line. If that fails, nothing more is written."""
        if isinstance(event, SubjectCompiles) or self._problem is not None:
            return
        if self._mode is WriteMode.GO_ON and isinstance(event, RunStarted):
            return
        self._append(f"{to_line(event)}\n".encode())

    def shutdown(self) -> None:
        """Closes the file. Raises UsageError if not all could be written."""
        if self._descriptor is not None:
            if self._is_made_here and not self._lines and self._problem is None:
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None
        if self._problem is not None:
            raise UsageError(f"the record {self._path} ends early: {self._problem.strerror}. "
                             f"Its {self._lines} lines can be read. (exit code 2)")

    def _append(self, line: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError("the record was not opened, or is closed already")
        is_first = not self._lines and self._mode is not WriteMode.GO_ON
        try:
            if is_first and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.ftruncate(descriptor, 0)
            while line:
                line = line[os.write(descriptor, line):]
            self._lines += 1
        except OSError as problem:
            self._problem = problem


class StreamWriter(Handler):
    """A handler that writes JSON Lines to a stream, which stays open."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def handle(self, event: Event) -> None:
        """Writes one line."""
        if isinstance(event, SubjectCompiles):
            return
        self._stream.write(f"{to_line(event)}\n")
        self._stream.flush()


def lock_file(descriptor: int, path: Path) -> None:
    """Locks a file until it is closed. Raises UsageError if another run has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another run writes to the record {path}. Wait for its end, or name another: "
                         "--record PATH.") from None
    except OSError:  # a file system without locks
        return


def reopen_record(path: Path, without: Collection[str] = ()) -> RunRecord:
    """Rewrites a record so that more can be appended, and returns it.

    It keeps the header, known subjects, blocks, puts and kernels, but not the footer, what was
    lost, a last line that was cut off, and the kernels of `without`. The old file stays until the
    new one is complete. Raises RecordError, and UsageError for a file that cannot be written or is
    locked.
    """
    record = read_record(path)
    with path.open("rb") as file:
        lock_file(file.fileno(), path)
        text = "".join(f"{to_line(event)}\n" for event in _kept_events(record, without))
        write_whole(path, text, "record")
    return read_record(path)


def _kept_events(record: RunRecord, without: Collection[str]) -> Iterator[Event]:
    yield record.header
    yield from (SubjectKnown(known.card) for known in record.subjects if not known.broken)
    yield from (block for block in record.blocks if not block.lost)
    yield from (put for put in record.puts if not put.lost)
    yield from (rank for rank in record.ranks if not rank.lost and rank.subject not in without)


_MACHINE_FACTS = frozenset({"workers", "cpus", "threads"})
"""What of an environment no verdict depends on."""


class MismatchedSpecError(RecordError):
    """Two records were made with different specs."""


def combine_records(paths: Sequence[Path], out: Path, *,
                    retold: Callable[[Event], Event] | None = None,
                    ended: Callable[[RunRecord], RunFinished] | None = None) -> None:
    """Writes records into one file, which `read_records` reads.

    retold: changes each event.  ended: makes the footer for the finished part of an interrupted
    run; if it is given, the unfinished subjects of such a run are left out. Raises RecordError for
    a bad record, MismatchedSpecError, ShardsError, DuplicateItemError, and UsageError if `out`
    cannot be written. An existing file stays until the new one is complete.
    """
    events = _events_of_files(paths, ended)
    text = "".join(f"{to_line(event)}\n" for event in (map(retold, events) if retold else events))
    write_whole(out, pack_text(out, text), "record")


def _events_of_files(paths: Sequence[Path],
                     ended: Callable[[RunRecord], RunFinished] | None) -> Iterator[Event]:
    joint, read = _JointRecord(), [(path, read_records(path)) for path in paths]
    check_whole([(path, record.header) for path, records in read for record in records])
    for path, records in read:
        if ended and len(records) == 1 and records[0].is_interrupted:
            yield from _finished_part(path, records[0], joint, ended)
            continue
        unfinished = {event for record in records for event in record.unfinished}
        for where, event in read_events(path):
            joint.take(event, where)
            # that an item began, its end says
            if not isinstance(event, ItemStarted) or event in unfinished:
                yield event


def _finished_part(path: Path, record: RunRecord, joint: _JointRecord,
                   ended: Callable[[RunRecord], RunFinished]
              ) -> Iterator[Event]:
    """Yields the events of those subjects of an interrupted run whose items are all finished."""
    done = Counter([*(each.subject for each in record.outcomes),
                    *(each.subject for each in record.probes)])
    whole = {subject: planned
             for subject, planned in record.header.planned.items() if done[subject] == planned}
    for where, event in read_events(path):
        match event:
            case RunStarted():
                joint.take(event, where)
                yield replace(event, planned=whole, items=sum(whole.values()))
                continue
            case SubjectKnown():
                subject = event.card.id
            case ItemFinished() | SubjectProbed():
                subject = key_of(event)[0]
            case _:
                continue
        if subject in whole:
            joint.take(event, where)
            yield event
    outcomes = tuple(each for each in record.outcomes if each.subject in whole)
    yield ended(replace(record, outcomes=outcomes))


@dataclass(slots=True)
class _JointRecord:
    """What was read so far: the spec's digest, and where every item was judged."""

    law: tuple[str, FileLocation] | None = None
    environment: frozenset[tuple[str, str]] = frozenset()
    judged: dict[tuple[object, ...], FileLocation] = field(default_factory=dict)

    def take(self, event: Event, where: FileLocation) -> None:
        """Takes one event of a record. Raises MismatchedSpecError and DuplicateItemError."""
        if isinstance(event, RunStarted):
            self._hold_to(event.spec_digest, where)
            self.environment = frozenset(pair for pair in event.environment.items()
                                         if pair[0] not in _MACHINE_FACTS)
        elif isinstance(event, Done):
            self._enter(event, where)

    def _hold_to(self, digest: str, where: FileLocation) -> None:
        known, place = self.law = self.law or (digest, where)
        if digest != known:
            raise MismatchedSpecError(f"this was judged by the spec {digest[:12]}, and {place.file} by "
                                      f"{known[:12]}. Judge both by the same spec.",
                                      where=FileLocation(where.file))

    def _enter(self, event: Done, where: FileLocation) -> None:
        key = (*key_of(event), self.environment)
        if key in self.judged:
            raise DuplicateItemError(f"{'-'.join(key_of(event))} was judged in the same environment at "
                                     f"{self.judged[key]} already. Leave one of the records out.", where=where)
        self.judged[key] = where


Position: TypeAlias = tuple[float, int]


def put_in_order(path: Path, done: Sequence[Done]) -> None:
    """Rewrites the record in the order in which one worker would have written it.

    Jobs come in the order of `done`, a subject's card after the start of its first job, and what
    the record had before stays in front. A pipe or a device is left alone. Raises RecordError, and
    UsageError if the file cannot be written, which then stays as it was.
    """
    if not path.is_file():
        return
    jobs = {key_of(each): place for place, each in enumerate(done)}
    subjects: dict[str, int] = {}
    for (subject, _, _), place in jobs.items():
        subjects.setdefault(subject, place)

    def place_of(event: Event) -> Position:
        """Where it belongs; what belongs to no job of this run comes after the header."""
        if isinstance(event, Done):
            return jobs.get(key_of(event), -1), 2
        if isinstance(event, RunFinished):
            return math.inf, 0
        if isinstance(event, SubjectKnown):
            return subjects.get(event.card.id, -1), 1
        if isinstance(event, ItemStarted):
            return jobs.get((event.subject, event.clause, event.dtype), -1), 0
        return -math.inf, 0

    events = sorted((event for _, event in read_events(path)), key=place_of)
    write_whole(path, "".join(f"{to_line(event)}\n" for event in events), "record")
