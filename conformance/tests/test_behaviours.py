"""An implementation that misbehaves gets the verdict that it deserves, in time, and colours nothing beside it.

The table is in `helpers/behaviours.py`. ATTNSPEC_BEHAVIOURS=all runs every row, also those that are much like others.
"""

from __future__ import annotations

import locale
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import AttnspecError
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.hosting import client
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.runner.jobs import exit_code
from helpers.behaviours import ALL, CALL, SOUND, Behaviour

LEAST = 60
CLAUSE, OF_NEIGHBOUR = "attention.definition", "purity.same_call_same_answer"  # the second asks anew each time
DEADLINE = 1.0
FOR_MEMORY = 30.0
"""Seconds of a call that fills memory: the limit, not the deadline, has to end it."""

PLAN = Plan(("none:yet",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE, deadline=DEADLINE)
HERE = [row for row in ALL if not row.is_slow or os.environ.get("ATTNSPEC_BEHAVIOURS") == "all"]
TOGETHER = ("exits_past_handlers", "sends_itself_SIGKILL", "raises_KeyboardInterrupt_17", "raises_a_lone_surrogate",
            "closes_its_streams", "clears_the_environment", "has_another_exponential", "leaves_a_child",
            "import_that_ends_the_process")
"""Those that could end a run, or spoil the worker in which they are judged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every row is a file, and the sound neighbour is one."""
    folder = tmp_path_factory.mktemp("behaviours")
    for row in ALL:
        (folder / f"{row.name}.py").write_text(row.source, encoding="utf-8")
    (folder / "neighbour.py").write_text(f"{SOUND}\n{CALL}    return sound(query, key, value)\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def engines() -> Iterator[Mapping[int, Engine]]:
    """An engine for each limit on memory; their hosts end with the tests."""
    yield {memory: Engine(replace(PLAN, memory=memory, deadline=FOR_MEMORY if memory else DEADLINE))
           for memory in {row.memory for row in ALL}}
    client.close_all()


def tried(engine: Engine, target: str, clause: str) -> Outcome:
    """The outcome as a run would have it."""
    try:
        return engine.try_item(Item(target, clause, "float32"))
    except AttnspecError as problem:
        return Outcome(target, clause, DType.FLOAT32, Level.MUST, Verdict.NOT_RUN, str(problem))


def state() -> tuple[object, ...]:
    """What of this process a subject could have changed, were it in it."""
    return (Path.cwd(), dict(os.environ), list(sys.path), np.geterr(), list(warnings.filters),
            locale.setlocale(locale.LC_ALL), sys.stdout, sys.stderr, signal.getsignal(signal.SIGINT), np.exp,
            np.asarray, os.umask(os.umask(0o022)))


def test_the_table_is_long_enough() -> None:
    assert len({row.name for row in ALL}) == len(ALL) >= LEAST


@pytest.mark.family(5)
@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.nightly) if row.name == "stops_itself" else row
                                 for row in HERE], ids=lambda row: row.name)
def test_a_behaviour_gets_its_verdict_and_nothing_else(row: Behaviour, folder: Path,
                                                       engines: Mapping[int, Engine]) -> None:
    neighbour = f"{folder / 'neighbour.py'}:attend"
    before, began = state(), time.monotonic()
    outcome = tried(engines[row.memory], f"{folder / row.name}.py:attend", CLAUSE)
    seconds = time.monotonic() - began
    beside = tried(engines[row.memory], neighbour, OF_NEIGHBOUR)
    assert (outcome.verdict, row.reason in outcome.reason) == (row.verdict, True), outcome.reason
    assert (beside.verdict, beside.reason, beside.cases) == (Verdict.HELD, "", 1)
    assert exit_code([outcome, beside], strict=False, interrupted=False) == row.exit_code
    assert seconds < row.seconds
    assert state() == before


def alive(marker: str) -> list[str]:
    """The processes whose command line has this word."""
    words = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in words.splitlines() if marker in line and "ps -eo" not in line]


def test_what_a_subject_started_is_ended_with_it(folder: Path) -> None:
    source = ALL[[row.name for row in ALL].index("leaves_a_child_of_its_own_session")].source
    marker = f"86399.{os.getpid()}"  # the same tests may run beside these
    (folder / "parent.py").write_text(source.replace("'1000'", f"'{marker}'"), encoding="utf-8")
    assert tried(Engine(PLAN), f"{folder / 'parent.py'}:attend", CLAUSE).verdict is Verdict.HELD
    assert alive(marker)
    client.close_all()
    assert not alive(marker)


@pytest.fixture(scope="module")
def together(folder: Path) -> tuple[subprocess.CompletedProcess[str], Mapping[str, list[Outcome]]]:
    """One run of the command over those that could end a run, and their neighbour."""
    names = [*TOGETHER, "neighbour"]
    words = ["--clause", CLAUSE, "--clause", OF_NEIGHBOUR, "--effort", "glance", "--dtype", "float32", "-n", "2",
             "--deadline", "5", "--record", "together.jsonl"]
    command = [sys.executable, "-m", "attnspec", "check", *(f"{name}.py:attend" for name in names), *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    for outcome in read_record(folder / "together.jsonl").outcomes:
        outcomes[outcome.subject.partition(".py")[0]].append(outcome)
    return ended, outcomes


@pytest.mark.nightly
@pytest.mark.parametrize("name", TOGETHER)
def test_in_a_run_each_gets_its_verdict(name: str, together: tuple[object, Mapping[str, list[Outcome]]]) -> None:
    row = ALL[[each.name for each in ALL].index(name)]
    [outcome] = [each for each in together[1][name] if each.clause == CLAUSE]
    assert (outcome.verdict, row.reason in outcome.reason) == (row.verdict, True), outcome.reason


@pytest.mark.nightly
def test_a_run_with_them_ends_well(
        together: tuple[subprocess.CompletedProcess[str], Mapping[str, list[Outcome]]]) -> None:
    ended, outcomes = together
    assert ended.returncode == 1
    assert "defect" not in ended.stdout + ended.stderr
    assert [outcome.verdict for outcome in outcomes["neighbour"]] == [Verdict.HELD] * 2
    assert not any(outcome.reason == "the run was interrupted" for found in outcomes.values() for outcome in found)


def test_an_import_that_fails_is_tried_once(folder: Path, engines: Mapping[int, Engine]) -> None:
    tally = folder / "imports.txt"
    (folder / "counted.py").write_text(f"with open({str(tally)!r}, 'a') as file: file.write('x')\nraise ImportError\n",
                                       encoding="utf-8")
    for clause in (CLAUSE, OF_NEIGHBOUR, "attention.shape"):
        assert tried(engines[0], f"{folder / 'counted.py'}:attend", clause).verdict is Verdict.NOT_RUN
    assert tally.read_text(encoding="utf-8") == "x"
