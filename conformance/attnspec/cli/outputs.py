"""Where a run's events go: the console, a record, a page, standard output as JSON."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TextIO

from attnspec.cli.conclusion import Detail, Verdicts
from attnspec.cli.progress import make_progress
from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.files import ensure_writable
from attnspec.core.scratch import scratch_folder
from attnspec.record.events import Event, Handler
from attnspec.record.read import PACKED, RunRecord, read_record, unpacked_name
from attnspec.record.visible import show_hidden
from attnspec.record.write import RecordWriter, StreamWriter, WriteMode

RUNS = Path("reports") / "run"  # below the working directory


@dataclass(frozen=True, slots=True)
class PageMaker:
    """How a record becomes a page. command: what a user types for it.  write: what writes the page of records."""

    command: str
    write: Callable[[Sequence[RunRecord], Path], None]


def _write_page(records: Sequence[RunRecord], path: Path) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page(records, path)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the user asked for. `record` is empty where none is kept; `html` where no page is wanted.

    is_named_here: the user left it to us how the record is called, so that there must not be one of that name.
    also: lines that say where other handlers write.  page_of: how a page is made of the record.
    """

    console_stream: TextIO
    record: Path | None = None
    html: Path | None = None
    as_json: bool = False
    detail: Detail = Detail.SHORT
    is_named_here: bool = False
    further_lines: tuple[str, ...] = ()
    page_of: PageMaker = field(default_factory=lambda: PageMaker("attnspec report", _write_page))

    @classmethod
    def from_options(cls, *, record: str | None, no_record: bool, html: str | None, as_json: bool,
                     detail: Detail = Detail.SHORT) -> Outputs:
        """Reads the options. With --json the console moves to standard error."""
        if record and no_record:
            raise UsageError("--record and --no-record contradict each other.")
        if record and record.endswith(PACKED):
            raise UsageError("a record is written line by line and cannot be compressed. Name it "
                             f"{unpacked_name(Path(record))}; `attnspec combine` writes compressed ones.")
        kept = None if no_record else Path(record) if record else _default_record()
        return cls(sys.stderr if as_json else sys.stdout, kept, Path(html) if html else None, as_json, detail,
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
        verdicts = Verdicts(stream, is_coloured=is_coloured(stream), places=self.places, detail=self.detail,
                            is_kept=lambda: beside is None or not beside.is_short)
        return [VisibleHandler(HandlerGroup([verdicts, make_progress(stream)]))]

    @property
    def kept_handlers(self) -> list[Handler]:
        """What is told elsewhere than on the console, in the order in which it starts."""
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


class Page:
    """A handler that writes the page once the run is over, from a record: the one given, or a temporary one."""

    def __init__(self, path: Path, record: Path | None,
                 write: Callable[[Sequence[RunRecord], Path], None] = _write_page) -> None:
        self._path, self._record, self._write = path, record, write
        self._stack = ExitStack()
        self._keep: Callable[[Event], None] = lambda _: None

    def start(self) -> None:
        """Find out now, not after the run, whether the page can be written."""
        ensure_writable(self._path, "page")
        if self._record is None:
            self._write_own_record()

    def handle(self, event: Event) -> None:
        """Keep the event, unless a record does so anyway."""
        self._keep(event)

    def shutdown(self) -> None:
        """Write the page."""
        with self._stack:
            if self._record is not None:  # start saw to it
                self._write([read_record(self._record)], self._path)

    def _write_own_record(self) -> None:
        folder = self._stack.enter_context(scratch_folder())
        self._record = folder / "run.jsonl"
        writer = RecordWriter(self._record)
        writer.start()
        self._keep = writer.handle
        self._stack.callback(writer.shutdown)


def is_coloured(stream: TextIO) -> bool:
    """Whether colours reach a reader."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def _default_record() -> Path:
    """A name that no other run takes, were it to begin at the same second; the number of a process tells no containers
    apart. Whoever opens it demands that it is new.
    """
    return RUNS / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}.jsonl"
