"""`--baseline`: what a gate knows is kept in a file, written by the first run and changed only on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from attnspec.cli.options import Given
from attnspec.cli.wording import plural
from attnspec.ground.errors import UsageError
from attnspec.record.events import Event, Handler, ItemFinished, RunFinished
from attnspec.record.outcome import Outcome
from attnspec.subjects.baseline import write_baseline

BASELINE = click.option("--baseline", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
                        help="Known failures: those listed stop nobody. Written by the first run.")
UPDATE = click.option("--update-baseline", is_flag=True, help="Bring the baseline up to date with what this run finds.")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The file, and whether this run writes it. One that is there is heeded all the same.

    Then the cases that it records are put first, and an update loses nothing that it would not have come across.
    """

    path: Path | None
    is_written: bool

    @classmethod
    def of(cls, options: dict[str, Given]) -> Baseline:
        """Takes its two options out of the others. Raises UsageError for an update of nothing."""
        path, update = options.pop("baseline"), options.pop("update_baseline")
        if update and path is None:
            raise UsageError("--update-baseline needs to know which: --baseline PATH.")
        if path and str(path).startswith("--"):
            raise UsageError(f"--baseline needs a path; {path} is the next option.")
        return cls(path, is_written=path is not None and (update or not path.exists()))

    @property
    def applied(self) -> str:
        """The file that this run heeds; empty if none."""
        return str(self.path.absolute()) if self.path and self.path.exists() else ""

    def handlers(self, *, strict: bool, folders: Sequence[str]) -> Sequence[Handler]:
        """What writes the file, if this run does. `folders`: further implementations, whose findings explain."""
        return [_Writer(self.path, strict, folders)] if self.path and self.is_written else []


@dataclass(slots=True)
class _Writer:
    """A handler."""

    path: Path
    strict: bool
    folders: Sequence[str]
    _outcomes: list[Outcome] = field(default_factory=list)
    _is_whole: bool = False

    def start(self) -> None:
        """Nothing to open."""

    def handle(self, event: Event) -> None:
        """Keep the outcomes, and whether the run came to its end."""
        match event:
            case ItemFinished(outcome=outcome):
                self._outcomes.append(outcome)
            case RunFinished(interrupted=interrupted):
                self._is_whole = not interrupted

    def shutdown(self) -> None:
        """Write the file; not from half a run, which would make unknown what it did not reach."""
        if not self._is_whole:
            click.echo(f"baseline: {self.path} was not written, since the run was interrupted", err=True)
            return
        known = write_baseline(self.path, self._outcomes, strict=self.strict, folders=self.folders)
        unexplained = sum(not each.finding for each in known)
        without = f", {unexplained} of them without a finding" if 0 < unexplained < len(known) else ""
        click.echo(f"baseline: wrote {self.path} with {plural(len(known), 'known failure')}{without}. Commit it: from "
                   "now on only a change stops the gate", err=True)
