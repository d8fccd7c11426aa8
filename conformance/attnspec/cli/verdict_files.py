"""What is written of a run once it is over: `--junit`, `--badge`, and what GitHub Actions shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from attnspec.cli.options import Given
from attnspec.core.errors import FileLocation
from attnspec.core.files import ensure_writable
from attnspec.core.github_actions import append_summary, is_on_github, is_told
from attnspec.record.events import Event, Handler
from attnspec.record.read import RunRecord, assemble_record
from attnspec.subjects.defined import annotated_at


class WholeRun(Handler):
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
        return assemble_record(((where, event) for event in self._events), name)


JUNIT = click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdicts as JUnit XML for a CI server.")
BADGE = click.option("--badge", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdict as JSON for a badge of shields.io.")


def write_junit(records: Sequence[RunRecord], path: Path) -> None:
    """Write the JUnit XML of one or several runs."""
    from attnspec.report import ci_files  # noqa: PLC0415  (weight: the XML library)

    ci_files.write_junit(records, path)


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs."""
    from attnspec.report import summary  # noqa: PLC0415  (weight: the page's summary)

    summary.write_badge(records, path)


class VerdictFile(WholeRun):
    """A handler that writes one file once the run is over. name: its option's.  what: what it is, for a reader."""

    def __init__(self, name: str, what: str, path: Path, write: Callable[[Sequence[RunRecord], Path], None]) -> None:
        super().__init__()
        self._name, self._what, self._path, self._write = name, what, path, write

    @property
    def place(self) -> str:
        """A line that says where the file lies."""
        return f"{self._name}: {self._path}"

    def start(self) -> None:
        """Find out now, not after the run, whether the file can be written."""
        ensure_writable(self._path, self._what)

    def shutdown(self) -> None:
        """Write the file."""
        self._write([self.record(str(self._path))], self._path)


def verdict_files(options: dict[str, Given]) -> Sequence[VerdictFile]:
    """Takes the two options out of the others: what writes the files that are wanted."""
    kinds = (("junit", "JUnit file", write_junit), ("badge", "badge", write_badge))
    return [VerdictFile(name, what, path, write) for name, what, write in kinds if (path := options.pop(name))]


class GitHub(WholeRun):
    """A handler that tells GitHub of the run once it is over. folders: further implementations."""

    def __init__(self, stream: TextIO, folders: Sequence[str]) -> None:
        super().__init__()
        self._stream, self._folders = stream, folders

    @classmethod
    def if_on_github(cls, stream: TextIO, folders: Sequence[str]) -> Sequence[GitHub]:
        """Makes the handler, or nothing where GitHub does not listen."""
        return [cls(stream, folders)] if is_told() else []

    def shutdown(self) -> None:
        """Append the summary, print the annotations."""
        from attnspec.report.ci_files import error_commands, step_summary  # noqa: PLC0415  (weight: only GitHub reads it)

        if not self.is_begun:
            return
        records = [self.record("this run")]
        for line in error_commands(records, partial(annotated_at, folders=self._folders)) if is_on_github() else ():
            click.echo(line, file=self._stream)
        append_summary(step_summary(records))
