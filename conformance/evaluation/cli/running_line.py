"""The line that says how far a measurement is: drawn over itself on a terminal, and seldom in a pipe."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TextIO

import click
from attnspec.cli.outputs import is_coloured

REDRAWN_EVERY = 10.0  # seconds between two lines in a pipe
OFTEN = 0.2   # and between two drawings on a terminal
_WIPE = "\r\x1b[2K"


@dataclass(slots=True)
class RunningLine:
    """Where the line stands; what is said meanwhile stays above it."""

    stream: TextIO
    _told: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        """Whether it is time for the line to be told again."""
        return time.monotonic() - self._told > (OFTEN if self.stream.isatty() else REDRAWN_EVERY)

    def tell(self, line: str) -> None:
        """The line as it is now."""
        self._told = time.monotonic()
        self._write(f"{_WIPE}{line}" if self.stream.isatty() else f"{line}\n")

    def say(self, line: str) -> None:
        """Something that stays."""
        self.wipe()
        click.echo(line, file=self.stream, color=is_coloured(self.stream))

    def wipe(self) -> None:
        """Take the line away."""
        self._write(_WIPE if self.stream.isatty() else "")

    def keep(self) -> None:
        """Leave the line where it is, and go on below it."""
        self._write("\n" if self.stream.isatty() else "")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
