"""The commands by name, each imported when it is called, and what is said when attnspec itself fails."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import click

import attnspec as package
from attnspec.cli.streams import lost
from attnspec.cli.wording import plural
from attnspec.core.characters import visible
from attnspec.core.docstrings import docstring
from attnspec.core.errors import CANNOT_RUN, UsageError, hint

if TYPE_CHECKING:
    from attnspec.runner.session import Result


DEFECT = """
The lines above come from a bug in attnspec, not in your implementation. Please report them and the command."""
UNHEARD = "attnspec: standard output was closed before the verdict was printed. The record has it. (exit code 2)"


def exit_code_of(result: Result) -> int:
    """The run's exit code; failures of our own are told, and then nobody can say. So it is where nobody listened."""
    if result.defects:
        own_up(result.defects)
    sys.stdout.flush()
    if isinstance(lost(), BrokenPipeError):
        click.echo(UNHEARD, err=True)
        return CANNOT_RUN
    return CANNOT_RUN if result.defects else result.exit_code


def own_up(defects: Sequence[str]) -> None:
    """Each kind of failure of our own once: they tend to come in dozens that end in the same line."""
    kinds: dict[str, list[str]] = {}
    for defect in defects:
        kinds.setdefault(defect.rstrip().rpartition("\n")[2], []).append(defect)
    for alike in kinds.values():
        more = f"\n… and {plural(len(alike) - 1, 'time')} more" if len(alike) > 1 else ""
        click.echo(f"\n{visible(alike[0])}{more}", err=True)
    click.echo(DEFECT, err=True)


COMMANDS: Mapping[str, str] = {
    "check": "attnspec.cli.check:check",
    "tour": "attnspec.cli.tour:tour",
    "audit": "attnspec.cli.check:audit",
    "rank": "attnspec.cli.rank:rank",
    "replay": "attnspec.cli.check:replay",
    "smoke": "attnspec.cli.smoke:smoke",
    "probe": "attnspec.cli.probe:probe",
    "init": "attnspec.cli.init:init",
    "list": "attnspec.cli.list:list_",
    "explain": "attnspec.cli.explain:explain",
    "power": "attnspec.cli.power:power",
    "refutations": "attnspec.cli.refutations:refutations",
    "campaign": "attnspec.cli.campaign:campaign",
    "confirm": "attnspec.cli.confirm:confirm",
    "ranges": "attnspec.cli.ranges:ranges",
    "combine": "attnspec.cli.combine:combine_",
    "report": "attnspec.cli.report:report",
    "lint": "attnspec.cli.lint:lint",
    "schema": "attnspec.cli.lint:schema",
}


class Lazy(click.Group):
    """A group that knows its commands by name."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """In the order of a first visit, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import the command."""
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if command.help is None and command.callback is not None:  # under `python -OO`
            command.help = docstring(command.callback)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of this name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command.{hint(args[0], COMMANDS)}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            check_values(command, rest)
        return name, command, rest


def check_values(command: click.Command, arguments: Sequence[str]) -> None:
    """Raise UsageError for an option with an empty value: `--host "$HOST"`, where that is not set, must not judge
    here what was to be judged in a container.
    """
    taking = {name for param in command.params if isinstance(param, click.Option) and not param.is_flag
              and not param.count for name in param.opts}
    told = [*((name, value) for name, value in pairwise(arguments) if name in taking),
            *((name, value) for name, sign, value in (each.partition("=") for each in arguments)
              if sign and name in taking)]
    for name, value in told:
        if not value.strip():
            raise UsageError(f"{name} has an empty value, as a variable has that is not set. Give it one, or leave "
                             f"{name} out.")


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package.__version__, "--version", "-V")
def attnspec() -> None:
    """The conformance suite for attention.

    Judges an implementation by documented clauses: attnspec check mypackage.mine:attend

    Judging an implementation executes it. Exit codes: 0 conforms, 1 violated, 2 cannot run.

    Completion, as in ~/.bashrc: eval "$(_ATTNSPEC_COMPLETE=bash_source attnspec)"; also zsh_source, fish_source.
    """


if attnspec.help is None and attnspec.callback is not None:  # as above
    attnspec.help = docstring(attnspec.callback)
