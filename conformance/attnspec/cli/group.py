"""The group of commands, each imported when it is called, and what is said of our own failures.

Standard output and standard error may be closed or full. A reader who stops listening (`attnspec
check … | head -1`) must not cost a run its record. So streams that cannot be written fall silent,
and the command ends with exit code 2: what could not be told is no verdict.
"""

from __future__ import annotations

import importlib
import io
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

import attnspec as package
from attnspec.core.errors import CANNOT_RUN, UsageError, hint
from attnspec.core.texts import count_noun, docstring, escape_hidden

if TYPE_CHECKING:
    from attnspec.runner.session import Result

_lost_streams: dict[str, OSError] = {}


def output_error() -> OSError | None:
    """Why standard output could not be written; None if it could. Known once it is flushed."""
    return _lost_streams.get("stdout")


@contextmanager
def patient_streams() -> Iterator[None]:
    """Keeps the process's own standard streams from raising errors in this context. Streams that
    replace them are left alone.
    """
    _open_descriptors()
    _lost_streams.clear()
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):
            setattr(sys, name, _patient(name, getattr(sys, name)))
    try:
        yield
    finally:
        with suppress(OSError):  # a stand-in may be broken, too
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _open_descriptors() -> None:
    """Opens standard streams that were closed (`>&-`), or a file would get their number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # workers need theirs as well
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            stream = os.fdopen(number, "w", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _patient(name: str, stream: TextIO) -> io.TextIOWrapper:
    stream.flush()
    raw = _PatientStream(name, stream)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors,
                            line_buffering=name == "stderr" or stream.isatty())


class _PatientStream(io.RawIOBase):
    """Writes to a stream until that fails, and then drops what is written."""

    name: str

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self._raw = cast("io.RawIOBase", getattr(stream.buffer, "raw", stream.buffer))

    def write(self, data: object, /) -> int:
        """Writes, and returns how many bytes were taken or dropped."""
        view = memoryview(cast("bytes", data))
        if self.name not in _lost_streams:
            try:
                return self._raw.write(view) or 0
            except OSError as problem:
                _lost_streams[self.name] = problem
        return len(view)

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor of the stream."""
        return self._raw.fileno()

    def isatty(self) -> bool:
        """Whether a terminal listens."""
        return self._raw.isatty()


OWN_BUG = """
The lines above come from a bug in attnspec, not in your implementation. Please report them and the command."""
OUTPUT_CLOSED = ("attnspec: standard output was closed before the verdict was printed. "
                 "The record has it. (exit code 2)")


def exit_code_of(result: Result) -> int:
    """The exit code of a run: 2 if it has defects of our own, or if nobody read the output."""
    if result.defects:
        own_up(result.defects)
    sys.stdout.flush()
    if isinstance(output_error(), BrokenPipeError):
        click.echo(OUTPUT_CLOSED, err=True)
        return CANNOT_RUN
    return CANNOT_RUN if result.defects else result.exit_code


def own_up(defects: Sequence[str]) -> None:
    """Prints each kind of failure of our own once: dozens may end in the same line."""
    kinds: dict[str, list[str]] = {}
    for defect in defects:
        kinds.setdefault(defect.rstrip().rpartition("\n")[2], []).append(defect)
    for alike in kinds.values():
        more = f"\n… and {count_noun(len(alike) - 1, 'time')} more" if len(alike) > 1 else ""
        click.echo(f"\n{escape_hidden(alike[0])}{more}", err=True)
    click.echo(OWN_BUG, err=True)


LISTED_COMMANDS: Mapping[str, str] = {
    "check": "attnspec.cli.check:check",
    "tour": "attnspec.cli.check:tour",
    "init": "attnspec.cli.manifests:init",
    "replay": "attnspec.cli.check:replay",
    "explain": "attnspec.cli.explain:explain",
    "list": "attnspec.cli.explain:list_",
    "report": "attnspec.cli.report:report",
    "probe": "attnspec.cli.manifests:probe",
    "rank": "attnspec.cli.rank:rank",
    "lint": "attnspec.cli.lint:lint",
}
"""What `attnspec --help` lists, in the order of a first visit and not of the alphabet."""

FURTHER_COMMANDS: Mapping[str, str] = {
    "audit": "attnspec.cli.check:audit",
    "combine": "attnspec.cli.report:combine_",
    "confirm": "attnspec.cli.manifests:confirm",
    "schema": "attnspec.cli.lint:schema",
    "smoke": "attnspec.cli.check:smoke",
}
"""What it names in one line below."""

COMMANDS: Mapping[str, str] = {**LISTED_COMMANDS, **FURTHER_COMMANDS}

MOVED_COMMANDS = ("power", "campaign", "refutations", "ranges")
"""Commands that measure attnspec itself.

They are in `conformance/evaluation`, which no wheel holds.
"""


class CommandGroup(click.Group):
    """A group that imports a command when it is called. listed, further: names to
    `module:attribute`. Help lists the first, and names the others in one line.
    """

    def __init__(self, *, listed: Mapping[str, str], further: Mapping[str, str], **attributes: Any) -> None:  # noqa: ANN401  (click's own)
        super().__init__(**attributes)
        self.listed, self.further = listed, further
        self._places = {**listed, **further}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of all commands, in their own order."""
        return list(self._places)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Imports a command; None if there is none of this name."""
        if name not in self._places:
            return None
        module, _, attribute = self._places[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if command.help is None and command.callback is not None:  # under `python -OO`
            command.help = docstring(command.callback)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands that a user needs as a table, and names the rest."""
        commands = {name: self.get_command(ctx, name) for name in self.listed}
        # as click's own: what the names leave of a line
        width = formatter.width - 6 - max(map(len, commands))
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(width))
                                for name, command in commands.items() if command])
        if self.further:
            formatter.write_paragraph()
            formatter.write_text(f"Further commands: {', '.join(self.further)}.")

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds a command; names the nearest one if there is none of this name."""
        if args[0] not in self._places and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command.{hint(args[0], self._places)}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            check_values(command, rest)
        return name, command, rest


class UsersGroup(CommandGroup):
    """The commands of the installed package. It knows where moved commands are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds a command. Raises UsageError for one that has moved out of the package."""
        if args[0] in MOVED_COMMANDS:
            raise UsageError(f"`{args[0]}` measures attnspec itself, and is no command of the installed package.\n"
                             f"In a checkout with an editable install: python -m evaluation {shlex.join(args)}")
        return super().resolve_command(ctx, args)


def check_values(command: click.Command, arguments: Sequence[str]) -> None:
    """Raise UsageError for an option with an empty value. `--host "$HOST"` with an unset variable
    must not judge here what was to be judged in a container.
    """
    with_value = {name for param in command.params
                  if isinstance(param, click.Option) and not (param.is_flag or param.count)
                  for name in param.opts}
    pairs = list(pairwise(arguments))
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign:
            pairs.append((name, value))
    for name, value in pairs:
        if name in with_value and not value.strip():
            raise UsageError(f"{name} has an empty value, as a variable has that is not set. Give it one, "
                             f"or leave {name} out.")


SETTINGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=UsersGroup, listed=LISTED_COMMANDS, further=FURTHER_COMMANDS,
             context_settings=SETTINGS)
@click.version_option(package.__version__, "--version", "-V")
def attnspec() -> None:
    """The conformance suite for attention.

    Judges an implementation by documented clauses: attnspec check mypackage.mine:attend

    Judging an implementation executes it. Exit codes: 0 conforms, 1 violated, 2 cannot run.

    Completion, as in ~/.bashrc: eval "$(_ATTNSPEC_COMPLETE=bash_source attnspec)"; also
    zsh_source, fish_source.
    """


if attnspec.help is None and attnspec.callback is not None:  # as above
    attnspec.help = docstring(attnspec.callback)
