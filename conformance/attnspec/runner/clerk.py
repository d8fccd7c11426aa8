"""Inside the controller: turns what xdist reports into events. It never imports a subject."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from attnspec.ground.nouns import DType, Level, Verdict
from attnspec.ground.plan import Item, Plan
from attnspec.record.codec import decode
from attnspec.record.events import Event, ItemFinished, ItemStarted, SubjectKnown
from attnspec.record.outcome import Evidence, Outcome, SubjectCard
from attnspec.runner.judge import complete, not_run
from attnspec.runner.traces import LastWords, end_workers, last_words

PATIENCE = 4  # workers that may die in a row without an item to blame before the run is given up
ENDED = {
    Verdict.CRASHED: "the process died while the implementation ran",
    Verdict.TIMED_OUT: "the implementation had not returned after {:g} s",
}


class Clerk:
    """A pytest plugin. `outcomes` grow as items finish; `defects` are failures of attnspec itself."""

    def __init__(
        self, plan: Plan, items: Mapping[Item, Level], emit: Callable[[Event], None], traces: Path, recipe: str = "",
    ) -> None:
        self.outcomes: dict[Item, Outcome] = {}
        self.defects: list[str] = []
        self.interrupted = False
        self._plan, self._levels, self._emit, self._traces, self._recipe = plan, items, emit, traces, recipe
        self._by_id = {item.id: item for item in items}
        self._cards: dict[str, SubjectCard] = {}
        self._deaths = 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A worker takes up an item."""
        item = self._item(nodeid)
        self._emit(ItemStarted(item.target, item.clause, item.dtype))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of an item is over, or its worker died (xdist then reports a phase of its own)."""
        properties = dict(report.user_properties)
        item = self._item(report.nodeid)
        if report.when not in ("setup", "call", "teardown"):  # "???" is xdist's word for the end of a worker
            self._finish(item, self._death(item, report.node.gateway.id))
        elif report.when == "call" and "attnspec" in properties:
            self._know(properties)
            self._finish(item, decode(Outcome, json.loads(str(properties["attnspec"]))))
        elif report.failed:
            self._defect(report.longreprtext)
            self._finish(item, not_run(item, self._levels[item], "attnspec itself failed; see the end of its output"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A worker could not even list the items."""
        if report.failed:
            self._defect(report.longreprtext)

    def pytest_testnodedown(self, error: object) -> None:
        """A worker is gone. One that dies again and again before it takes up an item would be replaced for ever."""
        self._deaths = self._deaths + 1 if error else 0
        if self._deaths > PATIENCE:
            self._defect(f"workers die before they take up an item: {error}")
            pytest.exit("workers die before they take up an item")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The user wants to leave, now. (pytest calls this for its own `exit` too.)"""
        self.interrupted = excinfo.errisinstance(KeyboardInterrupt)
        end_workers(self._traces)

    def pytest_internalerror(self, excrepr: object) -> bool:
        """Something of ours failed outside any item; it is shown at the end, once."""
        self._defect(str(excrepr))
        return True

    def missing(self) -> list[Item]:
        """The items without an outcome."""
        return [item for item in self._levels if item not in self.outcomes]

    def close(self, reason: str) -> None:
        """Give every missing item its outcome, NOT_RUN, and every subject that never spoke a card."""
        for item in self.missing():
            self._finish(item, not_run(item, self._levels[item], reason))
        for target in dict.fromkeys(item.target for item in self._levels):
            if target not in self._cards:
                card = SubjectCard(target, target, "", "", "", "", {}, {}, {}, ())
                self._emit(SubjectKnown(card, broken=self._reason(target)))

    def _reason(self, target: str) -> str:
        reasons = [outcome.reason for item, outcome in self.outcomes.items() if item.target == target]
        return next(filter(None, reasons), "no item of it came to an end")

    def _item(self, nodeid: str) -> Item:
        return self._by_id[nodeid.partition("[")[2].removesuffix("]")]

    def _know(self, properties: Mapping[str, object]) -> None:
        if "attnspec-card" not in properties:
            return
        card = decode(SubjectCard, json.loads(str(properties["attnspec-card"])))
        if self._cards.get(card.id) != card:
            self._cards[card.id] = card
            self._emit(SubjectKnown(card))

    def _finish(self, item: Item, outcome: Outcome) -> None:
        self._deaths = 0
        if item not in self.outcomes:
            self.outcomes[item] = outcome
            self._emit(ItemFinished(outcome))

    def _defect(self, text: str) -> None:
        if text not in self.defects:
            self.defects.append(text)

    def _death(self, item: Item, worker: str) -> Outcome:
        words = last_words(self._traces, worker)
        sentence = ENDED[words.verdict].format(self._plan.deadline)
        outcome = Outcome(item.target, item.clause, DType(item.dtype), self._levels[item], words.verdict,
                          evidence=_evidence(words, sentence, self._recipe))
        return complete(outcome, item, self._plan)


def _evidence(words: LastWords, sentence: str, recipe: str) -> Evidence:
    return Evidence(sentence, case="", recipe=words.recipe or recipe, traceback=words.traceback, stderr=words.stderr)
