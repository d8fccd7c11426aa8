"""The `attnspec` command.

Commands are loaded when they are called, so that listing needs no framework.
"""

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
    """Runs a command and returns its exit code. 0: conforms.  1: violated.  2: cannot run, or the
    output could not be written.
    """
    if COMPLETING in os.environ:
        from attnspec.cli.completion import offer_words  # noqa: PLC0415  (weight: only a shell asks for it)

        offer_words()
        attnspec.main(arguments, prog_name=NAME)  # answers the shell and exits
    return run_program(attnspec, NAME, arguments)


def run_program(commands: click.Group, name: str, arguments: Sequence[str] | None = None) -> int:
    """Runs one of these commands and returns its exit code. name: what a user types before the
    command.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    with patient_streams():
        code = _run_and_tell_errors(commands, name, arguments)
        return CANNOT_RUN if _is_output_lost() else code


def _run_and_tell_errors(commands: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit code; what stops it is told on standard error."""
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
    """Prints the error that is being handled, which is ours. Returns 2; 1 means violated."""
    click.echo(escape_hidden(traceback.format_exc()), err=True)
    click.echo(OWN_BUG, err=True)
    return CANNOT_RUN


def _run_command(commands: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Runs a command. Click's own `main` would turn a broken pipe into exit code 1."""
    try:
        with commands.make_context(name, [*arguments]) as context:
            return int(commands.invoke(context) or 0)
    except click.exceptions.Exit as end:  # --help and --version
        return end.exit_code


def _check_surroundings() -> None:
    """Raise UsageError if no command can work here."""
    if SYSTEM != "posix":
        raise UsageError("this system is not supported. Use Linux, macOS or WSL.")
    try:
        os.getcwd()
    except OSError as problem:
        raise UsageError(f"the working directory cannot be used: {problem.strerror}. "
                         "Go to a folder that exists.") from None


def _check_letters(arguments: Sequence[str]) -> None:
    """Raise UsageError for letters that this environment's encoding lacks."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"{quote_value(argument)} cannot be read in the encoding of this environment, "
                             f"{sys.getfilesystemencoding()}. Set PYTHONUTF8=1, or LC_ALL=C.UTF-8.") from None


def _is_output_lost() -> bool:
    """Whether a part of standard output was lost; says so unless the reader closed it."""
    sys.stdout.flush()
    problem = output_error()
    if problem is not None and not isinstance(problem, BrokenPipeError):
        click.echo(f"attnspec: standard output cannot be written: {problem.strerror}. (exit code 2)",
                   err=True)
    return problem is not None
