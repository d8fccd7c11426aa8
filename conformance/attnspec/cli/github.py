"""In GitHub Actions: a run's summary of the step, and errors at the lines of adapters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TextIO

import click

from attnspec.cli.whole_run import WholeRun
from attnspec.core.github_actions import append_summary, is_on_github, is_told
from attnspec.subjects.defined import annotated_at


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
        for line in error_commands(records, partial(annotated_at, folders=self._folders)) if is_on_github() else ():
            click.echo(line, file=self._stream)
        append_summary(step_summary(records))
