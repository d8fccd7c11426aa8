"""What a run of the command comes to in most tests, which start no workers, is what it comes to with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.hosting import client
from attnspec.record.events import Event
from attnspec.runner.session import Result, Session
from helpers.jobs_here import WORK_OF_WORKERS

PLAN = Plan(("numpy/attention", "fault/scale_none", "there.is:nothing"), clauses=("attention.definition",),
            dtypes=(DType.FLOAT32,), effort=Effort.GLANCE)


class Listener:
    """It keeps the kinds of the events."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def start(self) -> None:
        """Nothing is to be opened."""

    def handle(self, event: Event) -> None:
        self.heard.append(type(event).__name__)

    def shutdown(self) -> None:
        """Nothing is to be closed."""


def summarize(result: Result, listener: Listener) -> tuple[object, ...]:
    """All that is told of a run but for how long it took."""
    outcomes = [(each.subject, each.verdict, each.reason, each.cases, each.repeat, each.evidence and each.evidence.like)
                for each in result.outcomes]
    return outcomes, result.exit_code, result.defects, listener.heard


def test_a_run_in_place_comes_to_what_workers_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Listener(), Listener()
    in_place = summarize(Session(PLAN).run([here]), here)
    monkeypatch.setattr(Session, "_work", WORK_OF_WORKERS)
    assert in_place == summarize(Session(PLAN).run([there]), there)


def test_a_file_that_has_changed_is_judged_anew(tmp_path: Path) -> None:
    plan = Plan((f"{tmp_path / 'mine.py'}:attend",), clauses=("attention.shape",), dtypes=(DType.FLOAT32,),
                effort=Effort.GLANCE)
    verdicts = []
    for answer in ("query[..., :1] * value[:, :1, :1]", "query[:0]"):
        (tmp_path / "mine.py").write_text(f"def attend(query, key, value):\n    return {answer}\n", encoding="utf-8")
        verdicts += [outcome.verdict for outcome in Session(plan).run([]).outcomes]
    assert verdicts == [Verdict.HELD, Verdict.VIOLATED]


@pytest.mark.nightly
def test_the_host_of_a_library_stays_and_that_of_a_file_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine.py").write_text("def attend(query, key, value):\n    return query\n", encoding="utf-8")
    targets = ("numpy/attention", f"{tmp_path / 'mine.py'}:attend")
    plan = Plan(targets, clauses=("attention.shape",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE)
    Session(plan).run([])
    kept = list(client._clients.values())
    assert [key[0] for key in client._clients if isinstance(key, tuple)] == ["numpy/attention"]
    Session(plan).run([])
    assert list(client._clients.values()) == kept
    monkeypatch.setenv("OF_ANOTHER_TIME", "1")  # a host has the environment variables of its time
    Session(plan).run([])
    assert list(client._clients.values()) != kept
