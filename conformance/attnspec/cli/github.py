"""In GitHub Actions: a run's summary of the step, and errors at the lines of adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import click

from attnspec.cli.whole_run import WholeRun
from attnspec.core.errors import Place
from attnspec.core.github_actions import append_summary, in_repository, is_on_github, is_told
from attnspec.subjects.defined import defined_at


class GitHub(WholeRun):
    """A handler that tells GitHub of the run once it is over. folders: further implementations."""

    def __init__(self, stream: TextIO, folders: Sequence[str]) -> None:
        super().__init__()
        self._stream, self._folders = stream, folders

    @classmethod
    def of(cls, stream: TextIO, folders: Sequence[str]) -> Sequence[GitHub]:
        """Itself, or nothing where GitHub does not listen."""
        return [cls(stream, folders)] if is_told() else []

    def start(self) -> None:
        """Nothing to open."""

    def shutdown(self) -> None:
        """Append the summary, print the annotations."""
        from attnspec.report.github import error_commands, step_summary  # noqa: PLC0415  (weight: only GitHub reads it)

        if not self.is_begun:
            return
        records = [self.record("this run")]
        for line in error_commands(records, self._place) if is_on_github() else ():
            click.echo(line, file=self._stream)
        append_summary(step_summary(records))

    def _place(self, subject: str) -> Place | None:
        place = defined_at(subject, self._folders)
        return in_repository(place) if place else None
