"""Dockets of another kind than the engine's trials share its workers, its crash handling and its record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attnspec.core.plan import Plan
from attnspec.record.events import ItemStarted, RunFinished, RunStarted, SubjectKnown, SubjectPut
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import RecordWriter
from attnspec.runner.session import Session
from helpers.places import STUBS

pytestmark = pytest.mark.workers
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
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
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
    assert record.is_interrupted
    assert {put.subject: put.lost for put in record.puts} == {
        "fine": "", "slow": "not_run: the run was interrupted ()", "carded": "not_run: the run was interrupted ()"}


@pytest.mark.usefixtures("stubs")
def test_events_come_in_their_order() -> None:
    seen: list[type] = []

    class Listener:
        def start(self) -> None: ...
        def handle(self, event: object) -> None:
            seen.append(type(event))
        def shutdown(self) -> None: ...

    Session(Plan(("fine", "carded"), deadline=20), source="stub_jobs:Docket").run([Listener()])
    assert seen == [RunStarted, ItemStarted, SubjectPut, ItemStarted, SubjectKnown, SubjectPut, RunFinished]
