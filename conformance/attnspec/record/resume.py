"""A campaign goes on in its own record: what was judged stays, what came to nothing makes room for another try."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attnspec.ground.errors import UsageError
from attnspec.record.events import Event, SubjectKnown
from attnspec.record.lines import to_line
from attnspec.record.read import RunRecord, read_record


def reopen(path: Path) -> RunRecord:
    """The record, rewritten so that further blocks can be appended: the header, subjects that are known, blocks judged.

    Left out are the footer, blocks that were lost, and a last line that was cut off. The old file stands until the new
    one is complete. Raises RecordError, and UsageError for a file that cannot be written.
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
