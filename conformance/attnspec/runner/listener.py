"""Turns what xdist reports to the controller into events. It never imports a subject.

It also reads the files that a dead worker has left (see worker.py).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnspec.core.effort import SECONDS_UNTOLD
from attnspec.core.nouns import Verdict
from attnspec.core.paths import portable_text
from attnspec.core.plan import Job, JobFailure, Plan
from attnspec.record.codec import decode, from_line
from attnspec.record.events import Done, Event, ItemFinished, ItemStarted, Key, SubjectCompiles, SubjectKnown, key_of
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import UNTOLD, JobSource

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

STDERR_END_CHARACTERS = 2000  # characters kept at either end of what libraries printed
_TIMEOUT_TRACE = "Timeout ("  # how faulthandler begins when a deadline passes


@dataclass(frozen=True, slots=True)
class LastWords:
    """Says how a worker ended: its verdict, the case on trial, and where its threads stood."""

    verdict: Verdict
    recipe: str
    traceback: str
    stderr: str


def last_words(folder: Path, worker: str) -> LastWords:
    """Reads the files of a worker that died while an item was on trial."""
    trace = _read_trace(folder / f"{worker}.trace")
    verdict = Verdict.TIMED_OUT if trace.startswith(_TIMEOUT_TRACE) else Verdict.CRASHED
    printed = _read_trace(folder / f"{worker}.stderr")
    # behind the first line stands what is left of longer recipes
    recipe, _, _ = _read_trace(folder / f"{worker}.crumb").partition("\n")
    return LastWords(verdict, recipe, portable_text(trace.strip()), _shorten_to_ends(printed))


def read_failures(folder: Path) -> list[str]:
    """Reads how items had failed before their workers were ended: a line of a record each."""
    texts = [_read_trace(path) for path in sorted(folder.glob("*.failure"))]
    return [text.splitlines()[0] for text in texts if text]


def _shorten_to_ends(text: str) -> str:
    text = portable_text(text)
    if len(text) <= 2 * STDERR_END_CHARACTERS:
        return text
    return f"{text[:STDERR_END_CHARACTERS]}\n…\n{text[-STDERR_END_CHARACTERS:]}"


def _read_trace(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def silent_workers(folder: Path, now: float, longest: float) -> list[str]:
    """Finds the workers that have given no sign of life for so many seconds."""
    beats = {path.stem: _read_trace(path) for path in sorted(folder.glob("*.beat"))}
    return [worker for worker, beat in beats.items() if beat and now - float(beat) > longest]


def end_worker(folder: Path, worker: str) -> None:
    """Kills a worker, and deletes its signs of life."""
    (folder / f"{worker}.beat").unlink(missing_ok=True)
    with suppress(ProcessLookupError, ValueError):
        os.kill(int(_read_trace(folder / f"{worker}.pid")), signal.SIGKILL)


def end_workers(folder: Path) -> None:
    """Kills all workers, by the only signal that foreign code cannot ignore."""
    for path in sorted(folder.glob("*.pid")):
        with suppress(ProcessLookupError):
            os.kill(int(_read_trace(path)), signal.SIGKILL)


# workers that may die in a row without a job to blame before the run is given up
MAX_DEATHS_IN_A_ROW = 4
DEATH_SENTENCES = {
    Verdict.CRASHED: "a process of attnspec died at this item, twice, with no call of the implementation running",
    Verdict.TIMED_OUT: "attnspec did not finish this item, twice, with no call of the implementation running",
}


class Listener:
    """A pytest plugin that makes events of reports. done_by_job: grows as jobs end.  defects:
    failures of attnspec itself.
    """

    def __init__(self, source: JobSource[Any], items: Sequence[Job], plan: Plan,
                 emit: Callable[[Event], None],) -> None:
        self.done_by_job: dict[Job, Done] = {}
        self.defects: list[str] = []
        self.is_interrupted = False
        self._source, self._items, self._plan, self._emit = source, items, plan, emit
        self._by_id = {item.id: item for item in items}
        self._by_key = {(item.target, item.part, item.dtype): item for item in items}
        self._cards: dict[str, SubjectCard] = {}
        self._compiling: dict[str, float] = {}  # by subject, in seconds
        self._traces = Path()
        self._deaths = 0
        self._died: list[Job] = []

    def watch_folder(self, traces: Path) -> None:
        """Listens to new workers, which leave their files in this folder."""
        self._traces, self._deaths = traces, 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Emits that a worker takes up an item."""
        item = self._job_of_node(nodeid)
        self._emit(ItemStarted(item.target, item.part, item.dtype))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes the result of an item, or the death of its worker. xdist reports the death of a
        worker as a phase of its item.
        """
        properties = dict(report.user_properties)
        item = self._job_of_node(report.nodeid)
        # "???" is xdist's word for the end of a worker
        if report.when not in ("setup", "call", "teardown"):
            self._note_death(item, report.node.gateway.id)
        elif report.when == "call" and "attnspec" in properties:
            self._take_card(properties)
            self._finish_job(item, _read_done(str(properties["attnspec"])))
            self._count_compiling(item.target,
                                  float(str(properties.get("attnspec-compiling", 0.0))))
            if report.failed:  # after the verdict, with the subject's card
                self._note_defect(report.longreprtext)
        elif report.failed:
            self._note_defect(report.longreprtext)
            self._lose_job(item, JobFailure("attnspec itself failed; see the end of its output"))
        else:
            self._take_untold(value for _, value in report.user_properties)

    def _take_untold(self, lines: Iterable[object]) -> None:
        """Takes the results of jobs that a worker ended untried and reports together."""
        for done in map(_read_done, map(str, lines)):
            if job := self._find_awaited_job(key_of(done)):
                self._emit(ItemStarted(job.target, job.part, job.dtype))
                self._finish_job(job, done)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes that a worker could not list the items."""
        if report.failed:
            self._note_defect(report.longreprtext)

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        """Counts workers that die before they take up an item, and gives up after some. xdist
        would otherwise replace them for ever.
        """
        # one that died has no output
        self._take_untold(getattr(node, "workeroutput", {}).get(UNTOLD, ()))
        self._deaths = self._deaths + 1 if error else 0
        if self._deaths > MAX_DEATHS_IN_A_ROW:
            self._note_defect(f"workers die before they take up an item: {error}")
            import pytest  # noqa: PLC0415  (weight: see session.py)

            pytest.exit("workers die before they take up an item")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Kills the workers. pytest calls this at Ctrl-C, and at its own `exit`."""
        self.is_interrupted = excinfo.errisinstance(KeyboardInterrupt)
        end_workers(self._traces)

    def pytest_internalerror(self, excrepr: object) -> bool:
        """Notes a failure of attnspec outside of any item, which is shown at the end."""
        self._note_defect(str(excrepr))
        return True

    def receive_events(self, events: Iterable[Event]) -> None:
        """Takes the events of another part of the run, except those that it knows."""
        for event in events:
            if isinstance(event, SubjectKnown) and not event.broken:
                self._introduce_subject(event.card)
            elif isinstance(event, ItemStarted) and self._find_awaited_job(
                (event.subject, event.clause, event.dtype)):
                self._emit(event)
            elif isinstance(event, Done) and (job := self._find_awaited_job(key_of(event))):
                self._finish_job(job, event)

    def _find_awaited_job(self, key: Key) -> Job | None:
        job = self._by_key.get(key)
        if job in self.done_by_job:
            return None
        return job

    def give_up(self, jobs: Iterable[Job], reason: str, defects: Iterable[str] = ()) -> None:
        """Records those of these jobs that have not ended as lost, for this reason."""
        for defect in defects:
            self._note_defect(defect)
        for job in [job for job in jobs if job not in self.done_by_job]:
            self._lose_job(job, JobFailure(reason))

    def missing_jobs(self) -> list[Job]:
        """Returns the jobs that have not ended."""
        return [item for item in self._items if item not in self.done_by_job]

    def close_run(self, reason: str) -> None:
        """Records all that has not ended, once no worker runs any more.

        After an interruption it takes the failures that items on trial had already found. The
        other missing jobs are lost for the reason. Every subject that lost a job before its card
        was known gets an empty card.
        """
        self.receive_events(_read_done(line) for line in read_failures(self._traces)
                            if self.is_interrupted)
        for item in self.missing_jobs():
            self._lose_job(item, JobFailure(reason))
        for target in dict.fromkeys(item.target for item, done in self.done_by_job.items()
                                    if _is_lost(done)):
            if target not in self._cards:
                card = SubjectCard(target, target, "", "", "", "", {}, {}, {}, ())
                self._emit(SubjectKnown(card, broken=self._reason_of_loss(target)))

    def _reason_of_loss(self, target: str) -> str:
        for item, done in self.done_by_job.items():
            if item.target == target and (reason := _why_lost(done)):
                return reason
        return "none of its items was finished"

    def _job_of_node(self, nodeid: str) -> Job:
        return self._by_id[nodeid.partition("[")[2].removesuffix("]")]

    def _take_card(self, properties: Mapping[str, object]) -> None:
        if "attnspec-card" not in properties:
            return
        self._introduce_subject(decode(SubjectCard, json.loads(str(properties["attnspec-card"]))))

    def _count_compiling(self, subject: str, seconds: float) -> None:
        """Emits once that a subject has compiled for a minute, in all workers together."""
        before = self._compiling.get(subject, 0.0)
        self._compiling[subject] = before + seconds
        if before < SECONDS_UNTOLD <= before + seconds:
            self._emit(SubjectCompiles(subject, before + seconds))

    def _introduce_subject(self, card: SubjectCard) -> None:
        if self._cards.get(card.id) != card:
            self._cards[card.id] = card
            self._emit(SubjectKnown(card))

    def _finish_job(self, item: Job, done: Done) -> None:
        self._deaths = 0
        if item not in self.done_by_job:
            self.done_by_job[item] = done
            self._emit(done)

    def _lose_job(self, item: Job, loss: JobFailure) -> None:
        self._finish_job(item, self._source.record_loss(item, loss))

    def _note_defect(self, text: str) -> None:
        if text not in self.defects:
            self.defects.append(text)

    def _note_death(self, item: Job, worker: str) -> None:
        """Notes that a worker died at the item, which may be repeated once. The worker may have
        been killed from outside.
        """
        self._deaths = 0
        if item not in self._died:
            self._died.append(item)
            return
        words = last_words(self._traces, worker)
        sentence = DEATH_SENTENCES[words.verdict]
        parts = filter(None, (f"{item.id}: {sentence}", words.recipe, words.traceback, words.stderr))
        self._note_defect("\n".join(parts))
        self._lose_job(item, JobFailure(f"defect of attnspec: {sentence}"))

    @property
    def to_repeat(self) -> list[Job]:
        """The jobs at which a worker has died once, and those whose ends it took with it."""
        is_any = any(item not in self.done_by_job for item in self._died)
        return self.missing_jobs() if is_any else []


def _read_done(line: str) -> Done:
    event = from_line(line)
    assert isinstance(event, Done)  # our own worker wrote it
    return event


_LOST_VERDICTS = frozenset({Verdict.NOT_RUN, Verdict.CRASHED, Verdict.TIMED_OUT})


def _is_lost(done: Done) -> bool:
    if isinstance(done, ItemFinished):
        return done.outcome.verdict in _LOST_VERDICTS
    return bool(done.lost)


def _why_lost(done: Done) -> str:
    if isinstance(done, ItemFinished):
        return done.outcome.reason
    return done.lost
