"""Inside the controller: turns what xdist reports into events. It never imports a subject."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnspec.core.nouns import Verdict
from attnspec.core.plan import Job, JobFailure, Plan
from attnspec.record.codec import decode, from_line
from attnspec.record.events import Done, Event, ItemFinished, ItemStarted, Key, SubjectKnown, key_of
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import CARD, DONE, JobSource, handfuls
from attnspec.runner.traces import end_workers, last_words

if TYPE_CHECKING:
    import pytest

PATIENCE = 4  # workers that may die in a row without a job to blame before the run is given up
ENDED = {
    Verdict.CRASHED: "a process of attnspec died at this item, twice, with no call of the implementation running",
    Verdict.TIMED_OUT: "attnspec did not finish this item, twice, with no call of the implementation running",
}


class Listener:
    """A pytest plugin. `done` grows as jobs end; `defects` are failures of attnspec itself."""

    def __init__(
        self, source: JobSource[Any], items: Sequence[Job], plan: Plan, emit: Callable[[Event], None],
    ) -> None:
        self.done: dict[Job, Done] = {}
        self.defects: list[str] = []
        self.interrupted = False
        self._source, self._items, self._plan, self._emit = source, items, plan, emit
        self._by_key = {(item.target, item.part, item.dtype): item for item in items}
        self._handfuls: dict[str, tuple[Job, ...]] = {}  # by the id of the first
        self._cards: dict[str, SubjectCard] = {}
        self._traces = Path()
        self._deaths = 0
        self._undone: list[Job] = []

    def watch(self, traces: Path, jobs: Sequence[Job], most: int) -> None:
        """Attend to new workers, which take up these jobs, so many at a time at most, and leave their traces in this
        folder: it outlives none of them.
        """
        self._traces, self._deaths = traces, 0
        self._handfuls = {handful[0].id: handful for handful in handfuls(self._source, jobs, most)}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A worker takes up a job, or several: of the others nobody knows when they began until they have ended."""
        self._begin(self._handful(nodeid)[0])

    def _begin(self, job: Job) -> None:
        self._emit(ItemStarted(job.target, job.part, job.dtype))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Jobs are over, or their worker died (xdist then reports a phase of its own)."""
        handful = self._handful(report.nodeid)
        if report.when not in ("setup", "call", "teardown"):  # "???" is xdist's word for the end of a worker
            for job in handful:
                self._mourn(job, report.node.gateway.id)
            return
        self._take(report.user_properties, handful[0])
        if report.failed:
            self._defect(report.longreprtext)
            self._fail([job for job in handful if job not in self.done])

    def _fail(self, undone: Sequence[Job]) -> None:
        """At the first of these attnspec failed; the others were not come to."""
        for failed in undone[:1]:
            self._lose(failed, JobFailure("attnspec itself failed; see the end of its output"))
        self._undone += undone[1:]

    def _take(self, properties: Iterable[tuple[str, object]], first: Job) -> None:
        """What jobs came to. first: the one that is known to have begun."""
        card = None
        for name, text in properties:
            if name == CARD:
                card = decode(SubjectCard, json.loads(str(text)))
            elif name == DONE and (job := self._awaited(key_of(done := _done(str(text))))):
                if job is not first:
                    self._begin(job)
                if card:
                    self._introduce(card)
                    card = None
                self._finish(job, done)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A worker could not even list the items."""
        if report.failed:
            self._defect(report.longreprtext)

    def pytest_testnodedown(self, error: object) -> None:
        """A worker is gone. One that dies again and again before it takes up an item would be replaced for ever."""
        self._deaths = self._deaths + 1 if error else 0
        if self._deaths > PATIENCE:
            self._defect(f"workers die before they take up an item: {error}")
            import pytest  # noqa: PLC0415  (weight: see session.py)

            pytest.exit("workers die before they take up an item")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The user wants to leave, now. (pytest calls this for its own `exit` too.)"""
        self.interrupted = excinfo.errisinstance(KeyboardInterrupt)
        end_workers(self._traces)

    def pytest_internalerror(self, excrepr: object) -> bool:
        """Something of ours failed outside any item; it is shown at the end, once."""
        self._defect(str(excrepr))
        return True

    def receive(self, events: Iterable[Event]) -> None:
        """Take what a part of the run, carried out elsewhere, has recorded. What has ended is not taken again."""
        for event in events:
            if isinstance(event, SubjectKnown) and not event.broken:
                self._introduce(event.card)
            elif isinstance(event, ItemStarted) and self._awaited((event.subject, event.clause, event.dtype)):
                self._emit(event)
            elif isinstance(event, Done) and (job := self._awaited(key_of(event))):
                self._finish(job, event)

    def _awaited(self, key: Key) -> Job | None:
        job = self._by_key.get(key)
        return None if job in self.done else job

    def give_up(self, jobs: Iterable[Job], reason: str, defects: Iterable[str] = ()) -> None:
        """Of those of these jobs that have not ended nothing will be known, and why."""
        for defect in defects:
            self._defect(defect)
        for job in [job for job in jobs if job not in self.done]:
            self._lose(job, JobFailure(reason))

    def missing(self) -> list[Job]:
        """The jobs that have not ended."""
        return [item for item in self._items if item not in self.done]

    def close(self, reason: str) -> None:
        """Give up what is missing, and give every subject a card of which something was lost before it spoke."""
        for item in self.missing():
            self._lose(item, JobFailure(reason))
        for target in dict.fromkeys(item.target for item, done in self.done.items() if _is_lost(done)):
            if target not in self._cards:
                card = SubjectCard(target, target, "", "", "", "", {}, {}, {}, ())
                self._emit(SubjectKnown(card, broken=self._reason(target)))

    def _reason(self, target: str) -> str:
        reasons = [_why_lost(done) for item, done in self.done.items() if item.target == target]
        return next(filter(None, reasons), "none of its items was finished")

    def _handful(self, nodeid: str) -> tuple[Job, ...]:
        return self._handfuls[nodeid.partition("[")[2].removesuffix("]")]

    def _introduce(self, card: SubjectCard) -> None:
        if self._cards.get(card.id) != card:
            self._cards[card.id] = card
            self._emit(SubjectKnown(card))

    def _finish(self, item: Job, done: Done) -> None:
        self._deaths = 0
        if item not in self.done:
            self.done[item] = done
            self._emit(done)

    def _lose(self, item: Job, loss: JobFailure) -> None:
        self._finish(item, self._source.lost(item, loss))

    def _defect(self, text: str) -> None:
        if text not in self.defects:
            self.defects.append(text)

    def _mourn(self, item: Job, worker: str) -> None:
        """A worker has died at the item, or at another one of its handful. It is repeated once, by itself: the worker
        may have been killed from outside.
        """
        self._deaths = 0
        if item not in self._undone:
            self._undone.append(item)
            return
        words = last_words(self._traces, worker)
        told = "\n".join(filter(None, (ENDED[words.verdict], words.recipe, words.traceback, words.stderr)))
        self._defect(f"{item.id}: {told}")
        self._lose(item, JobFailure(f"defect of attnspec: {ENDED[words.verdict]}"))

    @property
    def to_repeat(self) -> list[Job]:
        """The jobs at which a worker has died once, or which it would have come to."""
        return [item for item in self._undone if item not in self.done]


def _done(line: str) -> Done:
    event = from_line(line)
    assert isinstance(event, Done)  # our own worker wrote it
    return event


_LOST = frozenset({Verdict.NOT_RUN, Verdict.CRASHED, Verdict.TIMED_OUT})


def _is_lost(done: Done) -> bool:
    return done.outcome.verdict in _LOST if isinstance(done, ItemFinished) else bool(done.lost)


def _why_lost(done: Done) -> str:
    return done.outcome.reason if isinstance(done, ItemFinished) else done.lost
