"""A record that a measurement of hours goes on with: a header, which has to be the same, and a line for each job."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click

Line = Mapping[str, Any]


def open_record(record: Path, header: Line) -> list[Line]:
    """The lines of a record to go on with, begun if there is none. Raises UsageError for one with another header."""
    if not record.exists():
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(header) + "\n", encoding="utf-8")
    whole = record.read_text(encoding="utf-8").rpartition("\n")[0]  # the last line may have been cut off
    first = json.loads(whole.partition("\n")[0])
    if first != header:
        raise click.UsageError(f"{record} is of {first}; this is {header}. Begin another one.")
    record.write_text(whole + "\n", encoding="utf-8")
    return read_lines(record)


def read_lines(record: Path) -> list[Line]:
    """The lines of a record, below its header."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()[1:]]


def append_lines(record: Path, judge: Callable[..., Line], jobs: Iterable[tuple[Any, ...]],
                 workers: int) -> Iterator[Line]:
    """What `judge` says of each job, in worker processes, as the lines come; each is written at once."""
    spawn = multiprocessing.get_context("spawn")
    with record.open("a", encoding="utf-8") as file, ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        for ended in as_completed([pool.submit(judge, *job) for job in jobs]):
            line = ended.result()
            file.write(json.dumps(line) + "\n")
            file.flush()
            yield line
