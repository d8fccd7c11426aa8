"""The commands of `python -m evaluation`, which measure attnspec itself. Each is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attnspec
import click
from attnspec.cli import run_program
from attnspec.cli.group import SETTINGS, CommandGroup

from evaluation import PROGRAM

COMMANDS: Mapping[str, str] = {
    "power": "evaluation.cli.power:power",
    "campaign": "evaluation.cli.campaign:campaign",
    "refutations": "evaluation.cli.refutations:refutations",
    "report": "evaluation.cli.report:report",
    "ranges": "evaluation.cli.ranges:ranges",
}


@click.group(cls=CommandGroup, listed=COMMANDS, further={}, context_settings=SETTINGS)
@click.version_option(attnspec.__version__, "--version", "-V")
def evaluation() -> None:
    """Measure attnspec itself: how many faults it detects, and whether it raises false alarms.

    These commands need a checkout with an editable install. Their records are read by attnspec combine, too.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0, 1 or 2, as the command says in its help."""
    return run_program(evaluation, PROGRAM, arguments)
