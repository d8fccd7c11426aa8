"""What the console shows while a run goes on: a rewritten block on a terminal, plain lines in a pipe."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from typing import TextIO

import click

from attnspec.cli.conclusion import failure_line, so_far
from attnspec.cli.digest import Digest, verdict_words
from attnspec.cli.wording import declared_sizes, format_counts, format_opening
from attnspec.core.nouns import Verdict
from attnspec.record.events import (
    Event,
    Handler,
    ItemFinished,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
)
from attnspec.record.measurements import SubjectProbed
from attnspec.record.outcome import Outcome
from attnspec.runner.session import INTERRUPTED, UNREACHED

BAR = 24           # characters
SHOWN = 8          # subjects in the live block; audits have more, most of them waiting
EVERY = 10.0       # seconds at least between two lines about the same subject, in a pipe
INTERVAL = 0.05    # seconds between two drawings: faster than the eye, slower than the events
_UP, _WIPE = "\x1b[{}F", "\x1b[J"


def make_progress(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Handler:
    """The handler that suits the stream."""
    is_live = stream.isatty() and environment.get("TERM", "") != "dumb"
    return LiveProgress(stream, is_coloured="NO_COLOR" not in environment) if is_live else PlainProgress(stream)


def bad_news(digest: Digest, outcome: Outcome) -> str:
    """What whoever waits should know as soon as this item has ended: what fails, or that nothing can be judged."""
    if failure := digest.first_failure:
        return failure_line(digest, failure)
    is_lost = outcome.verdict is Verdict.NOT_RUN and outcome.reason not in (INTERRUPTED, UNREACHED)
    is_first = len(digest.subjects) == 1 and len(digest.outcomes) == 1
    return f"{outcome.subject} cannot be judged: {outcome.reason}" if is_lost and is_first else ""


def tell_compiling(event: SubjectCompiles) -> str:
    """Where the time goes, for whoever wonders."""
    return (f"{event.subject} is being compiled for each new shape: that has taken {event.seconds:.0f} s so far "
            "(--effort glance tries fewer shapes).")


class PlainProgress(Handler):
    """A line when a run starts, one with its first failure as soon as that is known, and one a subject that is done;
    where there is but one, one a third of a long run.

    The failures themselves are told once, when the run is over.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._digest = stream, Digest()
        self._told, self._third, self._has_failed, self._cause = time.monotonic(), 0, False, ""

    def handle(self, event: Event) -> None:
        """Print what is worth a line."""
        self._digest.add(event)
        match event:
            case RunStarted():
                click.echo(format_opening(event), file=self._stream)
            case SubjectKnown():
                for line in declared_sizes(event, self._digest.header):
                    click.echo(line, file=self._stream)
            case ItemFinished(outcome=outcome):
                self._tell_of_first(outcome)
                self._print_finished_subject(outcome.subject)
            case SubjectCompiles():
                click.echo(tell_compiling(event), file=self._stream)
            case SubjectProbed():
                self._print_finished_subject(event.subject)
            case _:
                pass

    def _tell_of_first(self, outcome: Outcome) -> None:
        if not self._has_failed and (line := bad_news(self._digest, outcome)):
            click.echo(line, file=self._stream)
            self._has_failed, self._cause = True, _cause(so_far(self._digest))

    def _print_finished_subject(self, subject: str) -> None:
        if len(self._digest.subjects) == 1:
            self._tell_of_one()
        elif self._digest.done(subject) == self._digest.count_planned(subject):
            click.echo(f"{subject}: {self._fared(subject)}", file=self._stream)

    def _fared(self, subject: str) -> str:
        """`done, 2 of 3 subjects`; of one that was not judged that alone."""
        lost = self._digest.counts[subject][verdict_words(Verdict.NOT_RUN)]
        if lost:
            return "was not judged" if lost == self._digest.count_planned(subject) else "was judged in part"
        done = sum(self._digest.done(each) == self._digest.count_planned(each) for each in self._digest.subjects)
        return f"done, {done} of {len(self._digest.subjects)} subjects"

    def _tell_of_one(self) -> None:
        done, [subject] = len(self._digest.outcomes) + len(self._digest.probes), self._digest.subjects
        planned = self._digest.count_planned(subject)
        third = 3 * done // max(planned, done)
        if third > self._third and done < planned and time.monotonic() - self._told > EVERY:
            self._print_progress(f"{done} of {planned} items")
        self._third = third

    def _print_progress(self, progress: str) -> None:
        """How far it is, how many failures there are, and their likely cause where it is not the one told before."""
        standing = so_far(self._digest)
        cause = _cause(standing)
        told = standing.removesuffix(f". {cause}") if cause == self._cause else standing
        click.echo("; ".join(filter(None, (progress, told))), file=self._stream)
        self._told, self._cause = time.monotonic(), cause


def _cause(standing: str) -> str:
    """The second sentence of `so_far`, if it has one."""
    return standing.partition(". ")[2]


class LiveProgress(Handler):
    """The first lines of Plain, and under them a block that is rewritten: a bar a subject, what is on trial, and of one
    subject how many failures there are so far and what they likely come from.
    """

    def __init__(self, stream: TextIO, *, is_coloured: bool = True) -> None:
        self._stream, self._is_coloured, self._digest = stream, is_coloured, Digest()
        self._height, self._drawn, self._began = 0, 0.0, time.monotonic()
        self._standing, self._has_failed = (0, ""), False
        self._full, self._empty = ("━", "─") if "utf" in (stream.encoding or "").lower() else ("#", ".")

    def handle(self, event: Event) -> None:
        """Take the event, and draw the block anew if it is time."""
        self._digest.add(event)
        is_due = time.monotonic() - self._drawn > INTERVAL
        if isinstance(event, RunStarted):
            click.echo(format_opening(event), file=self._stream)
        if isinstance(event, SubjectCompiles):
            self._clear()
            click.echo(tell_compiling(event), file=self._stream)
        if isinstance(event, SubjectKnown) and (lines := list(declared_sizes(event, self._digest.header))):
            self._clear()
            click.echo("\n".join(lines), file=self._stream)
        if isinstance(event, ItemFinished) and not self._has_failed and (
                line := bad_news(self._digest, event.outcome)):
            self._clear()
            click.echo(click.style(line, fg="red"), file=self._stream, color=self._is_coloured)
            self._has_failed = True
        if isinstance(event, RunFinished):
            self._clear()
        elif is_due or isinstance(event, RunStarted):
            self._draw()

    def shutdown(self) -> None:
        """Leave the terminal clean, also after an interruption."""
        self._clear()

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
        open_ones = [name for name in digest.counts if digest.done(name) < digest.count_planned(name)]
        begun = sorted(open_ones, key=lambda name: digest.done(name) == 0)  # stable: those at work first
        lines = [self._bar(name) for name in begun[:SHOWN]]
        if len(begun) > SHOWN:
            lines.append(f"… and {len(begun) - SHOWN} more subjects")
        return [*lines, self._status(), *self._so_far()]

    def _so_far(self) -> list[str]:
        """In red; worked out anew only where there are more failures."""
        if len(self._digest.subjects) != 1:
            return []
        number = len(self._digest.failures)
        if number != self._standing[0]:
            self._standing = number, so_far(self._digest)
        return [click.style(line, fg="red") for line in self._standing[1].split(". ")] if number else []

    def _bar(self, subject: str) -> str:
        done, planned = self._digest.done(subject), self._digest.count_planned(subject)
        filled = BAR * done // planned
        bar = click.style(self._full * filled, fg="green") + self._empty * (BAR - filled)
        return f"{subject:<28} {bar} {done:>4}/{planned:<4} {format_counts(self._digest.counts[subject])}"

    def _status(self) -> str:
        seconds = int(time.monotonic() - self._began)
        names = [f"{item.clause} ({item.subject}, {item.dtype})" for item in self._digest.on_trial.values()]
        return f"{seconds // 60}:{seconds % 60:02d}  running: {'; '.join(names) or 'workers are starting'}"


def _cut(line: str, width: int) -> str:
    """The line, cut to the width: a wrapped line would spoil the rewriting. A cut line loses its colours."""
    bare = click.unstyle(line)
    return line if len(bare) < width else bare[: width - 2] + "…"
