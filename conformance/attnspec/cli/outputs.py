"""Where a run's events go: the console while the run goes on, a record, a page, standard output as JSON; and, once it
is over, `--junit`, `--badge`, and what GitHub Actions shows.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from attnspec.cli.conclusion import Detail, Verdicts, failure_line, format_so_far
from attnspec.cli.digest import Digest, declared_sizes, format_counts, format_opening, verdict_words
from attnspec.cli.options import Given
from attnspec.core.errors import AttnspecError, FileLocation, UsageError
from attnspec.core.nouns import Verdict
from attnspec.core.paths import append_summary, ensure_writable, is_on_github, is_told
from attnspec.record.events import (
    Event,
    Handler,
    ItemFinished,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
    SubjectProbed,
)
from attnspec.record.outcome import Outcome
from attnspec.record.read import PACKED_SUFFIXES, RunRecord, assemble_record, read_record, show_hidden, unpacked_name
from attnspec.record.write import RecordWriter, StreamWriter, WriteMode
from attnspec.runner.session import INTERRUPTED, UNREACHED
from attnspec.subjects.registry import annotated_at

BAR_WIDTH = 24           # characters
SUBJECTS_IN_BLOCK = 8          # subjects in the live block; audits have more, most of them waiting
# seconds at least between two lines about the same subject, in a pipe
SECONDS_BETWEEN_LINES = 10.0
# seconds between two drawings: faster than the eye, slower than the events
SECONDS_BETWEEN_DRAWINGS = 0.05
_UP, _WIPE = "\x1b[{}F", "\x1b[J"


def make_progress(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Handler:
    """The handler that suits the stream."""
    is_live = stream.isatty() and environment.get("TERM", "") != "dumb"
    if is_live:
        return LiveProgress(stream, is_coloured="NO_COLOR" not in environment)
    return PlainProgress(stream)


def bad_news(digest: Digest, outcome: Outcome) -> str:
    """Says what fails, or that nothing can be judged, to whoever waits for the run."""
    if failure := digest.first_failure:
        return failure_line(digest, failure)
    is_lost = outcome.verdict is Verdict.NOT_RUN and outcome.reason not in (INTERRUPTED, UNREACHED)
    is_first = len(digest.subjects) == 1 and len(digest.outcomes) == 1
    if is_lost and is_first:
        return f"{outcome.subject} cannot be judged: {outcome.reason}"
    return ""


def tell_compiling(event: SubjectCompiles) -> str:
    """Says that a compiler takes the time, for whoever wonders."""
    return (f"{event.subject} is being compiled for each new shape: "
            f"that has taken {event.seconds:.0f} s so far "
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
                self._print_first_failure(outcome)
                self._print_finished_subject(outcome.subject)
            case SubjectCompiles():
                click.echo(tell_compiling(event), file=self._stream)
            case SubjectProbed():
                self._print_finished_subject(event.subject)
            case _:
                pass

    def _print_first_failure(self, outcome: Outcome) -> None:
        if not self._has_failed and (line := bad_news(self._digest, outcome)):
            click.echo(line, file=self._stream)
            self._has_failed, self._cause = True, _cause(format_so_far(self._digest))

    def _print_finished_subject(self, subject: str) -> None:
        if len(self._digest.subjects) == 1:
            self._print_item_of_one()
        elif self._digest.count_done(subject) == self._digest.count_planned(subject):
            click.echo(f"{subject}: {self._describe_progress(subject)}", file=self._stream)

    def _describe_progress(self, subject: str) -> str:
        """`done, 2 of 3 subjects`; of one that was not judged that alone."""
        lost = self._digest.counts[subject][verdict_words(Verdict.NOT_RUN)]
        if lost:
            if lost == self._digest.count_planned(subject):
                return "was not judged"
            return "was judged in part"
        done = sum(self._digest.count_done(each) == self._digest.count_planned(each)
                   for each in self._digest.subjects)
        return f"done, {done} of {len(self._digest.subjects)} subjects"

    def _print_item_of_one(self) -> None:
        done, [subject] = (len(self._digest.outcomes) + len(self._digest.probes),
                           self._digest.subjects)
        planned = self._digest.count_planned(subject)
        third = 3 * done // max(planned, done)
        if third > self._third and done < planned and time.monotonic() - self._told > SECONDS_BETWEEN_LINES:
            self._print_progress(f"{done} of {planned} items")
        self._third = third

    def _print_progress(self, progress: str) -> None:
        """How far it is, how many failures there are, and their likely cause where it is not the one told before."""
        standing = format_so_far(self._digest)
        cause = _cause(standing)
        told = standing.removesuffix(f". {cause}") if cause == self._cause else standing
        click.echo("; ".join(filter(None, (progress, told))), file=self._stream)
        self._told, self._cause = time.monotonic(), cause


def _cause(standing: str) -> str:
    """The second sentence of `format_so_far`, if it has one."""
    return standing.partition(". ")[2]


class LiveProgress(Handler):
    """The first lines of Plain, and under them a block that is rewritten: a bar a subject, what is on trial, and of one
    subject how many failures there are so far and what they likely come from.
    """

    def __init__(self, stream: TextIO, *, is_coloured: bool = True) -> None:
        self._stream, self._is_coloured, self._digest = stream, is_coloured, Digest()
        self._height, self._drawn, self._began = 0, 0.0, time.monotonic()
        self._standing, self._has_failed = (0, ""), False
        self._full, self._empty = (("━", "─") if "utf" in (stream.encoding or "").lower()
                                   else ("#", "."))

    def handle(self, event: Event) -> None:
        """Take the event, and draw the block anew if it is time."""
        self._digest.add(event)
        is_due = time.monotonic() - self._drawn > SECONDS_BETWEEN_DRAWINGS
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
            self._draw_block()

    def shutdown(self) -> None:
        """Leave the terminal clean, also after an interruption."""
        self._clear()

    def _clear(self) -> None:
        if self._height:
            self._stream.write(_UP.format(self._height) + _WIPE)
            self._stream.flush()
            self._height = 0

    def _draw_block(self) -> None:
        self._clear()
        width = shutil.get_terminal_size().columns
        lines = [_cut_to_width(line, width) for line in self._format_block()]
        click.echo("\n".join(lines), file=self._stream, color=self._is_coloured)
        self._height = len(lines)
        self._drawn = time.monotonic()

    def _format_block(self) -> list[str]:
        digest = self._digest
        open_ones = [name for name in digest.counts if digest.count_done(name) < digest.count_planned(name)]
        # stable: those at work first
        begun = sorted(open_ones, key=lambda name: digest.count_done(name) == 0)
        lines = [self._bar(name) for name in begun[:SUBJECTS_IN_BLOCK]]
        if len(begun) > SUBJECTS_IN_BLOCK:
            lines.append(f"… and {len(begun) - SUBJECTS_IN_BLOCK} more subjects")
        return [*lines, self._status(), *self._format_counts_so_far()]

    def _format_counts_so_far(self) -> list[str]:
        """Counts the failures in red; they are counted anew only where there are more."""
        if len(self._digest.subjects) != 1:
            return []
        number = len(self._digest.failures)
        if number != self._standing[0]:
            self._standing = number, format_so_far(self._digest)
        if number:
            return [click.style(line, fg="red") for line in self._standing[1].split(". ")]
        return []

    def _bar(self, subject: str) -> str:
        done, planned = self._digest.count_done(subject), self._digest.count_planned(subject)
        filled = BAR_WIDTH * done // planned
        bar = click.style(self._full * filled, fg="green") + self._empty * (BAR_WIDTH - filled)
        return (f"{subject:<28} {bar} {done:>4}/{planned:<4} "
                f"{format_counts(self._digest.counts[subject])}")

    def _status(self) -> str:
        seconds = int(time.monotonic() - self._began)
        names = [f"{item.clause} ({item.subject}, {item.dtype})"
                 for item in self._digest.on_trial.values()]
        return (f"{seconds // 60}:{seconds % 60:02d}  running: "
                f"{'; '.join(names) or 'workers are starting'}")


def _cut_to_width(line: str, width: int) -> str:
    """The line, cut to the width: a wrapped line would spoil the rewriting. A cut line loses its colours."""
    bare = click.unstyle(line)
    return line if len(bare) < width else bare[: width - 2] + "…"


RECORDS_FOLDER = Path("reports") / "run"  # below the working directory


@dataclass(frozen=True, slots=True)
class PageMaker:
    """How a record becomes a page. command: what a user types for it.  write: what writes the page of records."""

    command: str
    write: Callable[[Sequence[RunRecord], Path], None]


def _write_run_page(records: Sequence[RunRecord], path: Path) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page(records, path)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the user asked for. `record` is empty where none is kept; `html` where no page is wanted.

    is_named_here: the user left it to us how the record is called, so that there must not be one of that name.
    further_lines: lines that say where other handlers write.  page_of: how a page is made of the record.
    """

    console_stream: TextIO
    record: Path | None = None
    html: Path | None = None
    as_json: bool = False
    detail: Detail = Detail.SHORT
    is_named_here: bool = False
    further_lines: tuple[str, ...] = ()
    page_of: PageMaker = field(default_factory=lambda: PageMaker("attnspec report",
                                                                 _write_run_page))

    @classmethod
    def from_options(cls, *, record: str | None, no_record: bool, html: str | None, as_json: bool,
                     detail: Detail = Detail.SHORT) -> Outputs:
        """Reads the options. With --json the console moves to standard error."""
        if record and no_record:
            raise UsageError("--record and --no-record contradict each other.")
        if record and record.endswith(PACKED_SUFFIXES):
            raise UsageError("a record is written line by line and cannot be compressed. Name it "
                             f"{unpacked_name(Path(record))}; `attnspec combine` writes compressed ones.")
        kept = None if no_record else Path(record) if record else _default_record()
        return cls(sys.stderr if as_json else sys.stdout, kept, Path(html) if html else None,
                   as_json, detail,
                   is_named_here=not record)

    @classmethod
    def console(cls) -> Outputs:
        """The console alone, with everything: for one case."""
        return cls(sys.stdout, detail=Detail.FULL)

    def handlers(self, beside: HandlerGroup | None = None) -> list[Handler]:
        """The handlers of the console in the order in which they start; they are shut down in the opposite one, so that
        the verdicts come last.

        beside: what is shut down before.
        """
        stream = self.console_stream
        verdicts = Verdicts(stream, is_coloured=is_coloured(stream), places=self.places,
                            detail=self.detail,
                            is_kept=lambda: beside is None or not beside.is_short)
        return [VisibleHandler(HandlerGroup([verdicts, make_progress(stream)]))]

    @property
    def kept_handlers(self) -> list[Handler]:
        """Makes the handlers that tell elsewhere than on the console, in the order in which they start."""
        handlers: list[Handler] = []
        if self.html:
            handlers.append(Page(self.html, self.record, self.page_of.write))
        if self.record:
            handlers.append(RecordWriter(self.record, WriteMode.NEW if self.is_named_here else WriteMode.REPLACE))
        if self.as_json:
            handlers.append(StreamWriter(sys.stdout))
        return handlers

    @property
    def places(self) -> list[str]:
        """Lines that say where record, page and whatever else is kept lie."""
        record = [f"record: {self.record}"] if self.record else []
        later = [f"page: {self.page_of.command} {self.record}"] if self.record else []
        return [*record, *([f"page: {self.html}"] if self.html else later), *self.further_lines]


class HandlerGroup:
    """Handlers as one, each of which is shut down whatever becomes of the others; all that went wrong is told.

    A full disk costs a run its record and its page.
    """

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self._handlers = handlers
        self.is_short = False  # whether something could not be written, once it is shut down

    def start(self) -> None:
        """Starts the handlers in order. The first that cannot start stops the run."""
        for handler in self._handlers:
            handler.start()

    def handle(self, event: Event) -> None:
        """Hands an event to each handler."""
        for handler in self._handlers:
            handler.handle(event)

    def shutdown(self) -> None:
        """Shuts the handlers down, the last one first. Raises UsageError."""
        wrong = []
        for handler in reversed(self._handlers):
            try:
                handler.shutdown()
            except AttnspecError as problem:
                wrong.append(str(problem))
        if wrong:
            self.is_short = True
            raise UsageError("\nattnspec: ".join(wrong))


class VisibleHandler:
    """A handler of what people read: the other one, told of events whose hidden characters are shown."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.start, self.shutdown = handler.start, handler.shutdown

    def handle(self, event: Event) -> None:
        """Hand it on."""
        self._handler.handle(show_hidden(event))


def is_coloured(stream: TextIO) -> bool:
    """Whether colours reach a reader."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def _default_record() -> Path:
    """A name that no other run takes, were it to begin at the same second; the number of a process tells no containers
    apart. Whoever opens it demands that it is new.
    """
    return (RECORDS_FOLDER
            / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}.jsonl")


class WholeRun(Handler):
    """The part of a handler that keeps the events of a run for its end."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def handle(self, event: Event) -> None:
        """Keep it."""
        self._events.append(event)

    @property
    def is_begun(self) -> bool:
        """Whether there is anything to tell: a run may be stopped before its first event."""
        return bool(self._events)

    def record(self, name: str) -> RunRecord:
        """The record of the run, as it would be read from a file of this name."""
        where = FileLocation(name)
        return assemble_record(((where, event) for event in self._events), name)


class Page(WholeRun):
    """A handler that writes the page once the run is over, from its record; where none is kept, from its events."""

    def __init__(self, path: Path, record: Path | None,
                 write: Callable[[Sequence[RunRecord], Path], None] = _write_run_page) -> None:
        super().__init__()
        self._path, self._kept, self._write = path, record, write

    def start(self) -> None:
        """Find out now, not after the run, whether the page can be written."""
        ensure_writable(self._path, "page")

    def handle(self, event: Event) -> None:
        """Keep the event, unless a record does so anyway."""
        if self._kept is None:
            super().handle(event)

    def shutdown(self) -> None:
        """Write the page."""
        self._write([read_record(self._kept) if self._kept else self.record(str(self._path))],
                    self._path)


JUNIT = click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdicts as JUnit XML for a CI server.")
BADGE = click.option("--badge", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
                     help="Also write the verdict as JSON for a badge of shields.io.")


def write_junit(records: Sequence[RunRecord], path: Path) -> None:
    """Write the JUnit XML of one or several runs."""
    from attnspec.report import ci_files  # noqa: PLC0415  (weight: the XML library)

    ci_files.write_junit(records, path)


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs."""
    from attnspec.report import summary  # noqa: PLC0415  (weight: the page's summary)

    summary.write_badge(records, path)


class VerdictFile(WholeRun):
    """A handler that writes one file once the run is over. name: its option's.  what: what it is, for a reader."""

    def __init__(self, name: str, what: str, path: Path,
                 write: Callable[[Sequence[RunRecord], Path], None]) -> None:
        super().__init__()
        self._name, self._what, self._path, self._write = name, what, path, write

    @property
    def place(self) -> str:
        """A line that says where the file lies."""
        return f"{self._name}: {self._path}"

    def start(self) -> None:
        """Find out now, not after the run, whether the file can be written."""
        ensure_writable(self._path, self._what)

    def shutdown(self) -> None:
        """Write the file."""
        self._write([self.record(str(self._path))], self._path)


def verdict_files(options: dict[str, Given]) -> Sequence[VerdictFile]:
    """Takes the two options out of the others: what writes the files that are wanted."""
    kinds = (("junit", "JUnit file", write_junit), ("badge", "badge", write_badge))
    return [VerdictFile(name, what, path, write)
            for name, what, write in kinds if (path := options.pop(name))]


class GitHub(WholeRun):
    """A handler that tells GitHub of the run once it is over. folders: further implementations."""

    def __init__(self, stream: TextIO, folders: Sequence[str]) -> None:
        super().__init__()
        self._stream, self._folders = stream, folders

    @classmethod
    def if_on_github(cls, stream: TextIO, folders: Sequence[str]) -> Sequence[GitHub]:
        """Makes the handler, or nothing where GitHub does not listen."""
        return [cls(stream, folders)] if is_told() else []

    def shutdown(self) -> None:
        """Append the summary, print the annotations."""
        from attnspec.report.ci_files import error_commands, step_summary  # noqa: PLC0415  (weight: only GitHub reads it)

        if not self.is_begun:
            return
        records = [self.record("this run")]
        for line in error_commands(records, partial(annotated_at, folders=self._folders)) if is_on_github() else ():
            click.echo(line, file=self._stream)
        append_summary(step_summary(records))
