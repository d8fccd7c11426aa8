"""What is said when attnspec itself fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from attnspec.cli.wording import plural
from attnspec.ground.exits import CANNOT_RUN

if TYPE_CHECKING:
    from attnspec.runner.session import Result

DEFECT = """
The lines above are a defect of attnspec itself, not of what it judges. Please report them, with the command."""


def exit_code_of(result: Result) -> int:
    """The run's exit code; failures of our own are told, and then nobody can say."""
    if result.defects:
        own_up(result.defects)
    return CANNOT_RUN if result.defects else result.exit_code


def own_up(defects: Sequence[str]) -> None:
    """Each kind of failure of our own once: they tend to come in dozens that end in the same line."""
    kinds: dict[str, list[str]] = {}
    for defect in defects:
        kinds.setdefault(defect.rstrip().rpartition("\n")[2], []).append(defect)
    for alike in kinds.values():
        more = f"\n… and {plural(len(alike) - 1, 'time')} more" if len(alike) > 1 else ""
        click.echo(f"\n{alike[0]}{more}", err=True)
    click.echo(DEFECT, err=True)
