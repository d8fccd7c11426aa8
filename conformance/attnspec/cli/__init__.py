"""The `attnspec` command. Commands are loaded when they are called, so that listing needs no framework."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from attnspec.cli.group import DEFECT, attnspec
from attnspec.core.errors import CANNOT_RUN, AttnspecError

COMPLETING = "_ATTNSPEC_COMPLETE"
"""The variable by which a shell asks what can follow."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0 conforms, 1 violated, 2 cannot run."""
    if COMPLETING in os.environ:
        from attnspec.cli.completion import offer  # noqa: PLC0415  (weight: only a shell asks for it)

        offer()
    try:
        code = attnspec.main(arguments, prog_name="attnspec", standalone_mode=False)
        return int(code or 0)
    except click.ClickException as problem:
        problem.show()
    except AttnspecError as problem:
        click.echo(f"attnspec: {problem}", err=True)
    except (KeyboardInterrupt, click.Abort):
        click.echo("attnspec: interrupted", err=True)
    except BrokenPipeError:  # `attnspec list | head`: nobody listens any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:  # ours, whatever it is: told loudly, and never as exit code 1, which means violated
        traceback.print_exc()
        click.echo(DEFECT, err=True)
    return CANNOT_RUN
