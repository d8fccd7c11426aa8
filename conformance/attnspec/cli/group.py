"""The commands by name, each imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

import attnspec as package
from attnspec.ground.errors import hint

COMMANDS: Mapping[str, str] = {
    "check": "attnspec.cli.judging:check",
    "audit": "attnspec.cli.judging:audit",
    "replay": "attnspec.cli.judging:replay",
    "smoke": "attnspec.cli.smoking:smoke",
    "probe": "attnspec.cli.probe:probe",
    "init": "attnspec.cli.init:init",
    "list": "attnspec.cli.listing:list_",
    "explain": "attnspec.cli.explaining:explain",
    "power": "attnspec.cli.power:power",
    "campaign": "attnspec.cli.campaign:campaign",
    "confirm": "attnspec.cli.confirming:confirm",
    "combine": "attnspec.cli.combining:combine_",
    "report": "attnspec.cli.reporting:report",
    "lint": "attnspec.cli.keeping:lint",
    "schema": "attnspec.cli.keeping:schema",
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
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of this name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command.{hint(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package.__version__, "--version", "-V")
def attnspec() -> None:
    """The conformance suite for attention.

    Judges an implementation by documented clauses: attnspec check mypackage.mine:attend

    Judging an implementation executes it. Exit codes: 0 conforms, 1 violated, 2 cannot run.

    Completion, as in ~/.bashrc: eval "$(_ATTNSPEC_COMPLETE=bash_source attnspec)"; also zsh_source, fish_source.
    """
