"""What the console shows while a run goes on: a rewritten block on a terminal, plain lines in a pipe."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from typing import TextIO

import click

from attnspec.cli.digest import ALARMING, Digest
from attnspec.cli.wording import counted, opening
from attnspec.ground.nouns import Level
from attnspec.record.events import Event, Handler, ItemFinished, RunFinished, RunStarted
from attnspec.record.outcome import Outcome
from attnspec.runner.texts import in_short

BAR = 24           # characters
SHOWN = 8          # subjects in the live block; audits have more, most of them waiting
INTERVAL = 0.05    # seconds between two drawings: faster than the eye, slower than the events
_UP, _WIPE = "\x1b[{}F", "\x1b[J"


def progress(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Handler:
    """The handler that suits the stream."""
    is_live = stream.isatty() and environment.get("TERM", "") != "dumb"
    return Live(stream, is_coloured="NO_COLOR" not in environment) if is_live else Plain(stream)


class Plain:
    """A line when a run starts, one an alarming item, one when a subject is done."""

    def __init__(self, stream: TextIO, *, is_coloured: bool = False) -> None:
        self._stream, self._is_coloured = stream, is_coloured
        self._digest = Digest()

    def start(self) -> None:
        """Nothing to open."""

    def handle(self, event: Event) -> None:
        """Print what is worth a line."""
        self._digest.add(event)
        match event:
            case RunStarted():
                self._print(opening(event))
            case ItemFinished():
                self._finished(event.outcome)
            case _:
                pass

    def shutdown(self) -> None:
        """Nothing to close."""

    def _finished(self, outcome: Outcome) -> None:
        digest = self._digest
        if outcome.verdict in ALARMING:
            advice = "" if outcome.level is Level.MUST else f" ({outcome.level.value})"
            first = in_short(outcome).partition("\n")[0]
            self._print(click.style(f"{outcome.subject} {outcome.dtype.value}{advice}: {first}", fg="red"))
        if digest.done(outcome.subject) == digest.planned(outcome.subject):
            self._print(f"{outcome.subject}: {counted(digest.counts[outcome.subject])}")

    def _print(self, line: str) -> None:
        click.echo(line, file=self._stream, color=self._is_coloured)


class Live(Plain):
    """The lines of Plain, and under them a block that is rewritten: a bar a subject, and what is on trial."""

    def __init__(self, stream: TextIO, *, is_coloured: bool = True) -> None:
        super().__init__(stream, is_coloured=is_coloured)
        self._height = 0
        self._drawn = 0.0
        self._began = time.monotonic()
        self._full, self._empty = ("━", "─") if "utf" in (stream.encoding or "").lower() else ("#", ".")

    def handle(self, event: Event) -> None:
        """Take the event, print what is worth a line, and draw the block anew if it is time."""
        super().handle(event)
        is_due = time.monotonic() - self._drawn > INTERVAL
        if isinstance(event, RunFinished):
            self._clear()
        elif is_due or isinstance(event, RunStarted):
            self._draw()

    def shutdown(self) -> None:
        """Leave the terminal clean, also after an interruption."""
        self._clear()

    def _print(self, line: str) -> None:
        self._clear()
        super()._print(line)

    def _clear(self) -> None:
        if self._height:
            self._stream.write(_UP.format(self._height) + _WIPE)
            self._stream.flush()
            self._height = 0

    def _draw(self) -> None:
        self._clear()
        width = shutil.get_terminal_size().columns
        lines = [_cut(line, width) for line in self._block()]
        click.echo("\n".join(lines), file=self._stream, color=self._is_coloured)
        self._height = len(lines)
        self._drawn = time.monotonic()

    def _block(self) -> list[str]:
        digest = self._digest
        open_ones = [name for name in digest.counts if digest.done(name) < digest.planned(name)]
        begun = sorted(open_ones, key=lambda name: digest.done(name) == 0)  # stable: those at work first
        lines = [self._bar(name) for name in begun[:SHOWN]]
        if len(begun) > SHOWN:
            lines.append(f"… and {len(begun) - SHOWN} more subjects")
        return [*lines, self._status()]

    def _bar(self, subject: str) -> str:
        done, planned = self._digest.done(subject), self._digest.planned(subject)
        filled = BAR * done // planned
        bar = click.style(self._full * filled, fg="green") + self._empty * (BAR - filled)
        return f"{subject:<28} {bar} {done:>4}/{planned:<4} {counted(self._digest.counts[subject])}"

    def _status(self) -> str:
        seconds = int(time.monotonic() - self._began)
        names = [f"{item.clause} ({item.subject}, {item.dtype})" for item in self._digest.on_trial.values()]
        return f"{seconds // 60}:{seconds % 60:02d}  on trial: {'; '.join(names) or 'workers are starting'}"


def _cut(line: str, width: int) -> str:
    """The line, cut to the width: a wrapped line would spoil the rewriting. A cut line loses its colours."""
    bare = click.unstyle(line)
    return line if len(bare) < width else bare[: width - 2] + "…"
