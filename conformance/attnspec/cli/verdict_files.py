"""`--junit` and `--badge`: the verdicts of a run as files that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from attnspec.cli.options import Given
from attnspec.cli.whole_run import WholeRun
from attnspec.core.files import ensure_writable
from attnspec.record.read import RunRecord

JUNIT = click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdicts as JUnit XML for a CI server.")
BADGE = click.option("--badge", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdict as JSON for a badge of shields.io.")


def write_junit(records: Sequence[RunRecord], path: Path) -> None:
    """Write the JUnit XML of one or several runs."""
    from attnspec.report import junit  # noqa: PLC0415  (weight: the XML library)

    junit.write_junit(records, path)


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs."""
    from attnspec.report import badge  # noqa: PLC0415  (weight: the page's summary)

    badge.write_badge(records, path)


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
