"""The handlers of a run's events: console, record, page, JSON, JUnit, badge, and GitHub."""

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

BAR_WIDTH = 24  # characters
SUBJECTS_IN_BLOCK = 8  # of an audit, most others are waiting
SECONDS_BETWEEN_LINES = 10.0  # at least, in a pipe
SECONDS_BETWEEN_DRAWINGS = 0.05  # faster than the eye, slower than the events
_UP, _WIPE = "\x1b[{}F", "\x1b[J"


def make_progress(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Handler:
    """Makes the handler of progress that suits a stream: live on a terminal, else plain."""
    is_live = stream.isatty() and environment.get("TERM", "") != "dumb"
    if is_live:
        return LiveProgress(stream, is_coloured="NO_COLOR" not in environment)
    return PlainProgress(stream)


def bad_news(digest: Digest, outcome: Outcome) -> str:
    """Says what fails first, or that nothing can be judged; empty if there is no bad news."""
    if failure := digest.first_failure:
        return failure_line(digest, failure)
    is_lost = outcome.verdict is Verdict.NOT_RUN and outcome.reason not in (INTERRUPTED, UNREACHED)
    is_first = len(digest.subjects) == 1 and len(digest.outcomes) == 1
    if is_lost and is_first:
        return f"{outcome.subject} cannot be judged: {outcome.reason}"
    return ""


def tell_compiling(event: SubjectCompiles) -> str:
    """Says that a compiler takes the time."""
    return (f"{event.subject} is being compiled for each new shape: that has taken "
            f"{event.seconds:.0f} s so far (--effort glance tries fewer shapes).")


class PlainProgress(Handler):
    """A handler that prints a line for the start, the first failure and each finished subject.

    A single subject has a line for each third of a long run. All failures are told once the run is
    over.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._digest, self._last_line = stream, Digest(), time.monotonic()
        self._third, self._has_failed, self._cause = 0, False, ""

    def handle(self, event: Event) -> None:
        """Prints what is worth a line."""
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
        """`done, 2 of 3 subjects`, or that the subject was not judged."""
        lost = self._digest.counts[subject][verdict_words(Verdict.NOT_RUN)]
        if lost and lost == self._digest.count_planned(subject):
            return "was not judged"
        if lost:
            return "was judged in part"
        done = sum(self._digest.count_done(each) == self._digest.count_planned(each)
                   for each in self._digest.subjects)
        return f"done, {done} of {len(self._digest.subjects)} subjects"

    def _print_item_of_one(self) -> None:
        [subject] = self._digest.subjects
        done = len(self._digest.outcomes) + len(self._digest.probes)
        planned = self._digest.count_planned(subject)
        third = 3 * done // max(planned, done)
        is_due = time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES
        if third > self._third and done < planned and is_due:
            self._print_progress(f"{done} of {planned} items")
        self._third = third

    def _print_progress(self, progress: str) -> None:
        """Prints the progress and the failures so far; the likely cause only if it is new."""
        standing = format_so_far(self._digest)
        cause = _cause(standing)
        if cause == self._cause:
            standing = standing.removesuffix(f". {cause}")
        click.echo("; ".join(filter(None, (progress, standing))), file=self._stream)
        self._last_line, self._cause = time.monotonic(), cause


def _cause(standing: str) -> str:
    """The second sentence of `format_so_far`, if it has one."""
    return standing.partition(". ")[2]


class LiveProgress(Handler):
    """A handler that prints as `PlainProgress`, and below that a block that is redrawn.

    The block has a bar for each subject, the items on trial, and how many failures a single
    subject has, with their likely cause.
    """

    def __init__(self, stream: TextIO, *, is_coloured: bool = True) -> None:
        self._stream, self._is_coloured, self._digest = stream, is_coloured, Digest()
        self._height, self._drawing_time, self._began = 0, 0.0, time.monotonic()
        self._standing, self._has_failed = (0, ""), False
        self._full, self._empty = "#", "."
        if "utf" in (stream.encoding or "").lower():
            self._full, self._empty = "━", "─"

    def handle(self, event: Event) -> None:
        """Takes the event, and draws the block again if it is time."""
        self._digest.add(event)
        is_due = time.monotonic() - self._drawing_time > SECONDS_BETWEEN_DRAWINGS
        match event:
            case RunStarted():
                self._print_above([format_opening(event)])
                is_due = True
            case SubjectCompiles():
                self._print_above([tell_compiling(event)])
            case SubjectKnown():
                self._print_above(list(declared_sizes(event, self._digest.header)))
            case ItemFinished() if not self._has_failed:
                if line := bad_news(self._digest, event.outcome):
                    self._print_above([click.style(line, fg="red")])
                    self._has_failed = True
            case RunFinished():
                self._clear()
                return
        if is_due:
            self._draw_block()

    def _print_above(self, lines: Sequence[str]) -> None:
        if lines:
            self._clear()
            click.echo("\n".join(lines), file=self._stream, color=self._is_coloured)

    def shutdown(self) -> None:
        """Clears the block, also after an interruption."""
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
        self._height, self._drawing_time = len(lines), time.monotonic()

    def _format_block(self) -> list[str]:
        digest = self._digest
        unfinished = [name for name in digest.counts
                      if digest.count_done(name) < digest.count_planned(name)]
        # those that are begun come first, in their order
        unfinished.sort(key=lambda name: digest.count_done(name) == 0)
        lines = [self._bar(name) for name in unfinished[:SUBJECTS_IN_BLOCK]]
        if len(unfinished) > SUBJECTS_IN_BLOCK:
            lines.append(f"… and {len(unfinished) - SUBJECTS_IN_BLOCK} more subjects")
        return [*lines, self._status(), *self._format_counts_so_far()]

    def _format_counts_so_far(self) -> list[str]:
        """Counts the failures, in red; formats them only if there are more."""
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
        counts = format_counts(self._digest.counts[subject])
        return f"{subject:<28} {bar} {done:>4}/{planned:<4} {counts}"

    def _status(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        names = [f"{item.clause} ({item.subject}, {item.dtype})"
                 for item in self._digest.on_trial.values()]
        return f"{minutes}:{seconds:02d}  running: {'; '.join(names) or 'workers are starting'}"


def _cut_to_width(line: str, width: int) -> str:
    """Cuts a line, without its colours: one that is wrapped would spoil the redrawing."""
    bare = click.unstyle(line)
    return line if len(bare) < width else bare[: width - 2] + "…"


RECORDS_FOLDER = Path("reports") / "run"  # below the working directory


@dataclass(frozen=True, slots=True)
class PageMaker:
    """How a record becomes a page. command: what a user types for it.  write: writes the page of
    records.
    """

    command: str
    write: Callable[[Sequence[RunRecord], Path], None]


def _write_run_page(records: Sequence[RunRecord], path: Path) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page(records, path)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs that the user asked for.

    record: None if none is written.  html: None if no page is written.  is_named_here: the
    record's name is ours, so no file of that name may exist.  further_lines: where other handlers
    write.  page_of: how a page is made of the record.
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
        path = Path(record) if record else _default_record()
        return cls(sys.stderr if as_json else sys.stdout, None if no_record else path,
                   Path(html) if html else None, as_json, detail, is_named_here=not record)

    @classmethod
    def console(cls) -> Outputs:
        """The console alone, with everything: for a single case."""
        return cls(sys.stdout, detail=Detail.FULL)

    def handlers(self, written: HandlerGroup | None = None) -> list[Handler]:
        """The handlers of the console, in the order in which they start. They are shut down in
        reverse, so that the verdicts come last.  written: the handlers that are shut down before.
        """
        stream = self.console_stream
        verdicts = Verdicts(stream, is_coloured=is_coloured(stream), places=self.places,
                            detail=self.detail,
                            are_files_written=lambda: written is None or not written.is_short)
        return [VisibleHandler(HandlerGroup([verdicts, make_progress(stream)]))]

    @property
    def kept_handlers(self) -> list[Handler]:
        """Makes the handlers of record, page and JSON, in the order in which they start."""
        handlers: list[Handler] = []
        if self.html:
            handlers.append(Page(self.html, self.record, self.page_of.write))
        if self.record:
            mode = WriteMode.NEW if self.is_named_here else WriteMode.REPLACE
            handlers.append(RecordWriter(self.record, mode))
        if self.as_json:
            handlers.append(StreamWriter(sys.stdout))
        return handlers

    @property
    def places(self) -> list[str]:
        """Lines that say where record, page and other files are."""
        lines = []
        if self.record:
            lines.append(f"record: {self.record}")
        if self.html:
            lines.append(f"page: {self.html}")
        elif self.record:
            lines.append(f"page: {self.page_of.command} {self.record}")
        return [*lines, *self.further_lines]


class HandlerGroup:
    """Handlers as one; each is shut down, whatever errors others raise. So a full disk costs a run
    no more than the record and the page.
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
        problems = []
        for handler in reversed(self._handlers):
            try:
                handler.shutdown()
            except AttnspecError as problem:
                problems.append(str(problem))
        if problems:
            self.is_short = True
            raise UsageError("\nattnspec: ".join(problems))


class VisibleHandler:
    """Hands events to a handler for people, with hidden characters made visible."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.start, self.shutdown = handler.start, handler.shutdown

    def handle(self, event: Event) -> None:
        """Hands on the event."""
        self._handler.handle(show_hidden(event))


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream shows colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def _default_record() -> Path:
    """A name for a record that no other run takes, even if it starts in the same second. The
    number of a process does not tell containers apart.
    """
    now = datetime.now().astimezone()
    return RECORDS_FOLDER / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}.jsonl"


class WholeRun(Handler):
    """The part of a handler that collects the events of a run for its end."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def handle(self, event: Event) -> None:
        """Collects the event."""
        self._events.append(event)

    def record(self, name: str) -> RunRecord:
        """The record of the run, as if it were read from a file of this name."""
        where = FileLocation(name)
        return assemble_record(((where, event) for event in self._events), name)


class Page(WholeRun):
    """A handler that writes the page once the run is over, from its record or its events."""

    def __init__(self, path: Path, record: Path | None,
                 write: Callable[[Sequence[RunRecord], Path], None] = _write_run_page) -> None:
        super().__init__()
        self._path, self._kept, self._write = path, record, write

    def start(self) -> None:
        """Raise UsageError now, not after the run, if the page cannot be written."""
        ensure_writable(self._path, "page")

    def handle(self, event: Event) -> None:
        """Collects the event, unless there is a record."""
        if self._kept is None:
            super().handle(event)

    def shutdown(self) -> None:
        """Write the page."""
        record = read_record(self._kept) if self._kept else self.record(str(self._path))
        self._write([record], self._path)


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
    """A handler that writes one file once the run is over. name: of its option.  what: what a
    reader calls it.
    """

    def __init__(self, name: str, what: str, path: Path,
                 write: Callable[[Sequence[RunRecord], Path], None]) -> None:
        super().__init__()
        self._name, self._what, self._path, self._write = name, what, path, write

    @property
    def place(self) -> str:
        """A line that says where the file is."""
        return f"{self._name}: {self._path}"

    def start(self) -> None:
        """Raise UsageError now, not after the run, if the file cannot be written."""
        ensure_writable(self._path, self._what)

    def shutdown(self) -> None:
        """Write the file."""
        self._write([self.record(str(self._path))], self._path)


def verdict_files(options: dict[str, Given]) -> Sequence[VerdictFile]:
    """Takes `--junit` and `--badge` out of the options, and makes the handlers for them."""
    kinds = (("junit", "JUnit file", write_junit), ("badge", "badge", write_badge))
    return [VerdictFile(name, what, path, write)
            for name, what, write in kinds if (path := options.pop(name))]


class GitHub(WholeRun):
    """A handler that tells GitHub of the run once it is over. folders: implementations."""

    def __init__(self, stream: TextIO, folders: Sequence[str]) -> None:
        super().__init__()
        self._stream, self._folders = stream, folders

    @classmethod
    def if_on_github(cls, stream: TextIO, folders: Sequence[str]) -> Sequence[GitHub]:
        """Makes the handler if this runs in GitHub Actions."""
        return [cls(stream, folders)] if is_told() else []

    def shutdown(self) -> None:
        """Appends the summary, and prints the annotations."""
        from attnspec.report.ci_files import error_commands, step_summary  # noqa: PLC0415  (weight: only GitHub reads it)

        if not self._events:  # a run may be stopped before its first event
            return
        records = [self.record("this run")]
        if is_on_github():
            for line in error_commands(records, partial(annotated_at, folders=self._folders)):
                click.echo(line, file=self._stream)
        append_summary(step_summary(records))
