"""`--junit`: the verdicts of a run as JUnit XML, too, for the CI server that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from attnspec.cli.options import Given
from attnspec.core.errors import Place
from attnspec.core.files import ensure_writable
from attnspec.record.events import Event
from attnspec.record.read import assemble

JUNIT = click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Write the verdicts as JUnit XML for a CI server, too.")


class JUnit:
    """A handler that keeps the events of a run, and writes the file once it is over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: list[Event] = []

    @classmethod
    def of(cls, options: dict[str, Given]) -> Sequence[JUnit]:
        """Takes its option out of the others: itself, or nothing where it is not wanted."""
        path = options.pop("junit")
        return [cls(path)] if path else []

    @property
    def place(self) -> str:
        """A line that says where the file lies."""
        return f"junit: {self._path}"

    def start(self) -> None:
        """Find out now, not after the run, whether the file can be written."""
        ensure_writable(self._path, "JUnit file")

    def handle(self, event: Event) -> None:
        """Keep it."""
        self._events.append(event)

    def shutdown(self) -> None:
        """Write the file."""
        from attnspec.report.junit import write_junit  # noqa: PLC0415  (weight: Jinja2)

        where = Place(str(self._path))
        write_junit([assemble(((where, event) for event in self._events), str(self._path))], self._path)
