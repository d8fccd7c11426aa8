"""Records of runs that never were, and writing them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnspec.record.events import Event, RunStarted
from attnspec.record.outcome import Evidence, Outcome
from attnspec.record.write import RecordWriter

_STARTED = RunStarted("2026-01-02T03:04:05+00:00", ("attnspec", "check"), "0.1", "f" * 64, 7, "quick", False, 0,
                      ("float32",), {}, ())


def run_started(**changes: Any) -> RunStarted:  # noqa: ANN401  (fields of the header, by name)
    """The header of a made-up run, with these fields of its own."""
    return replace(_STARTED, **changes)


def evidence_of(outcome: Outcome) -> Evidence:
    """The evidence of an outcome that has some."""
    assert outcome.evidence is not None
    return outcome.evidence


def write_record(path: Path, *events: Event) -> Path:
    """Writes these events as a run does, one after the other. Returns the path."""
    writer = RecordWriter(path)
    writer.start()
    for event in events:
        writer.handle(event)
    writer.shutdown()
    return path


TIMES = frozenset({"started", "finished", "seconds"})
"""What of a line is a time."""


def lines_but_for_times(path: Path) -> list[Any]:
    """The lines of a record, in order, without times, and without the command and the number of workers."""
    lines = [_remove_times(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    header = lines[0]
    return [{**header, "command": (), "environment": {**header["environment"], "workers": ""}}, *lines[1:]]


def _remove_times(thing: Any) -> Any:  # noqa: ANN401  (what JSON holds)
    if isinstance(thing, dict):
        return {name: _remove_times(value) for name, value in thing.items() if name not in TIMES}
    return [_remove_times(each) for each in thing] if isinstance(thing, list) else thing
