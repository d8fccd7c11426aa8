"""Dockets of another kind than the engine's trials share its workers, its crash handling and its record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from attnspec.core.plan import Plan
from attnspec.record.events import Event, ItemStarted, RunFinished, RunStarted, SubjectKnown
from attnspec.record.measurements import SubjectPut
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import RecordWriter
from attnspec.runner.jobs import handfuls
from attnspec.runner.session import Result, Session
from helpers.places import STUBS
from stubs.stub_jobs import BAD, MANY, Docket

DIED = ("not_run: defect of attnspec: a process of attnspec died at this item, twice, with no call of the "
        "implementation running ()")


@pytest.fixture
def record(stubs: Path, tmp_path: Path) -> RunRecord:  # noqa: ARG001  (on the path)
    """What is on record of three jobs, of which the second kills each worker that takes it up."""
    plan = Plan(("fine", "crash", "carded"), deadline=20)
    result = Session(plan, source="stub_jobs:Docket").run([RecordWriter(tmp_path / "run.jsonl")])
    assert [defect.partition(":")[0] for defect in result.defects] == ["crash-float32"]
    assert not result.outcomes
    return read_record(tmp_path / "run.jsonl")


def test_a_source_runs_in_workers_and_is_on_record(record: RunRecord) -> None:
    assert record.header.rules == ({"name": "stub"},)
    assert (record.header.items, dict(record.header.planned)) == (3, {"fine": 1, "crash": 1, "carded": 1})
    assert {put.subject: put.lost for put in record.puts} == {
        "fine": "", "carded": "", "crash": DIED}
    assert record.footer is not None
    assert (dict(record.footer.counts), record.footer.exit_code) == ({"put": 3}, 2)  # a worker of ours died
    assert not record.unfinished


def test_a_subject_of_which_the_header_tells_needs_no_card(record: RunRecord) -> None:
    assert {known.card.id: known.broken for known in record.subjects} == {
        "carded": "", "crash": DIED}


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from attnspec.core.plan import Plan
from attnspec.record.write import RecordWriter
from attnspec.runner.session import Session
session = Session(Plan(("fine", "slow", "carded"), deadline=60), source="stub_jobs:Docket")
sys.exit(session.run([RecordWriter(Path(sys.argv[2]))]).exit_code)
"""


def test_an_interrupted_source_keeps_what_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-c", INTERRUPTED, str(STUBS), str(path)]
    with subprocess.Popen(command, start_new_session=True, cwd=tmp_path) as process:
        end = time.monotonic() + 30
        while not (path.exists() and '"subject": "slow"' in path.read_text(encoding="utf-8")):
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 2
    record = read_record(path)
    assert record.interrupted
    assert {put.subject: put.lost for put in record.puts} == {
        "fine": "", "slow": "not_run: the run was interrupted ()", "carded": "not_run: the run was interrupted ()"}


@dataclass(frozen=True)
class Listener:
    seen: list[Event] = field(default_factory=list)

    def start(self) -> None: ...

    def handle(self, event: Event) -> None:
        self.seen.append(event)

    def shutdown(self) -> None: ...


def run(*targets: str) -> tuple[Result, list[Event]]:
    listener = Listener()
    return Session(Plan(targets, deadline=20), source="stub_jobs:Docket").run([listener]), listener.seen


@pytest.mark.usefixtures("stubs")
def test_events_come_in_their_order() -> None:
    _, seen = run("fine", "carded")
    assert [type(event) for event in seen] == [
        RunStarted, ItemStarted, SubjectPut, ItemStarted, SubjectKnown, SubjectPut, RunFinished]


def test_short_jobs_of_a_subject_are_taken_up_a_handful_at_a_time() -> None:
    source = Docket(Plan(("short one", "short two", "fine")))
    taken = list(handfuls(source, source.items(), 5))
    assert [job for handful in taken for job in handful] == list(source.items())
    assert [len(handful) for handful in taken] == 2 * [*MANY // 5 * [5], MANY % 5] + [1]


@pytest.mark.usefixtures("stubs")
def test_the_jobs_of_a_handful_are_on_record_as_if_each_came_alone() -> None:
    result, seen = run("short")
    events = [event.clause if isinstance(event, ItemStarted) else event.part for event in seen[1:-1]
              if isinstance(event, ItemStarted | SubjectPut)]
    assert events == [f"seed {number}" for number in range(MANY) for _ in ("began", "ended")]
    assert result.defects == ()


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize(("target", "lost"), [
    ("short crash", DIED), ("short defect", "not_run: attnspec itself failed; see the end of its output ()")])
def test_what_one_job_of_a_handful_meets_costs_no_other_its_verdict(target: str, lost: str) -> None:
    result, seen = run(target)
    found = {f"seed {event.seed}": event.lost for event in seen if isinstance(event, SubjectPut)}
    assert found == {f"seed {number}": "" for number in range(MANY)} | {BAD: lost}
    assert (result.exit_code, len(result.defects)) == (2, 1)
