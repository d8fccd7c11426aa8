"""The `attnspec` command. Commands are loaded when they are called, so that listing needs no framework."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

import click

from attnspec.cli.group import OWN_BUG, attnspec, output_error, patient_streams
from attnspec.core.errors import CANNOT_RUN, AttnspecError, UsageError, quote_value
from attnspec.core.texts import escape_hidden

NAME = "attnspec"
SYSTEM = os.name
COMPLETING = "_ATTNSPEC_COMPLETE"
"""The variable by which a shell asks what can follow."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0 conforms, 1 violated, 2 cannot run or could not be told."""
    if COMPLETING in os.environ:
        from attnspec.cli.completion import offer_words  # noqa: PLC0415  (weight: only a shell asks for it)

        offer_words()
        attnspec.main(arguments, prog_name=NAME)  # answers the shell and exits
    return run_program(attnspec, NAME, arguments)


def run_program(commands: click.Group, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run one of these commands, and return its exit code. name: what a user types before the command's own."""
    with patient_streams():
        code = _run_and_tell_errors(commands, name,
                                    sys.argv[1:] if arguments is None else arguments)
        return CANNOT_RUN if _is_output_lost() else code


def _run_and_tell_errors(commands: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Runs a command, and tells on standard error what stops it. Returns the exit code."""
    try:
        _check_surroundings()
        _check_letters(arguments)
        return _run_command(commands, name, arguments)
    except click.ClickException as problem:
        problem.show()
    except AttnspecError as problem:
        click.echo(f"attnspec: {escape_hidden(str(problem))}", err=True)
    except OSError as problem:
        if problem.errno != errno.ENAMETOOLONG:
            return _own_up()
        name = escape_hidden(quote_value(problem.filename))
        click.echo(f"attnspec: no file has so long a name: {name}. Check what is named.", err=True)
    except (KeyboardInterrupt, EOFError, click.Abort):
        click.echo("\nattnspec: interrupted", err=True)
    except Exception:
        return _own_up()
    return CANNOT_RUN


def _own_up() -> int:
    """Tell of the error that is handled, which is ours: loudly, and never as exit code 1, which means violated."""
    click.echo(escape_hidden(traceback.format_exc()), err=True)
    click.echo(OWN_BUG, err=True)
    return CANNOT_RUN


def _run_command(commands: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Runs a command as click's `main` does, which makes exit code 1 of a pipe that breaks."""
    try:
        with commands.make_context(name, [*arguments]) as context:
            return int(commands.invoke(context) or 0)
    except click.exceptions.Exit as end:  # --help and --version
        return end.exit_code


def _check_surroundings() -> None:
    """Raise UsageError where no command can work."""
    if SYSTEM != "posix":
        raise UsageError("this system is not supported. Use Linux, macOS or WSL.")
    try:
        os.getcwd()
    except OSError as problem:
        raise UsageError(f"the working directory cannot be used: {problem.strerror}. "
                         "Go to a folder that exists.") from None


def _check_letters(arguments: Sequence[str]) -> None:
    """Raise UsageError for letters that the encoding here does not have: no file is found by them."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"{quote_value(argument)} cannot be read in the encoding of this environment, "
                             f"{sys.getfilesystemencoding()}. Set PYTHONUTF8=1, or LC_ALL=C.UTF-8.") from None


def _is_output_lost() -> bool:
    """Whether a part of standard output was lost. Whoever closed a pipe knows, so that counts as none."""
    sys.stdout.flush()
    problem = output_error()
    if problem is not None and not isinstance(problem, BrokenPipeError):
        click.echo(f"attnspec: standard output cannot be written: {problem.strerror}. (exit code 2)", err=True)
    return problem is not None
