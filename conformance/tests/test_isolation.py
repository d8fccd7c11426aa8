"""A subject that crashes, hangs or talks costs its own item and nothing else; the user's pytest is not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Verdict
from attnspec.core.plan import Plan
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.runner.environment import ONE_THREAD, prepared
from attnspec.runner.session import Session
from helpers.places import STUBS

pytestmark = pytest.mark.usefixtures("stubs")
RECIPE = "B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=normal;seed=3"


def run(*clauses: str, deadline: float = 20, workers: int = 1) -> dict[str, Outcome]:
    plan = Plan(("stub",), clauses=tuple(f"stub.{name}" for name in clauses), deadline=deadline)
    result = Session(plan, workers, engine="stub_engine:Engine").run([])
    assert not result.defects
    return {outcome.clause.removeprefix("stub."): outcome for outcome in result.outcomes}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_costs_its_own_item_and_everything_else_goes_on(workers: int) -> None:
    outcomes = run("held", "crash", "lacking", "segfault", "violated", workers=workers)
    assert {name: outcome.verdict.value for name, outcome in outcomes.items()} == {
        "held": "held", "crash": "crashed", "lacking": "inapplicable", "segfault": "crashed", "violated": "violated"}


def test_a_crash_leaves_its_case_its_stack_and_what_was_printed() -> None:
    evidence = run("crash")["crash"].evidence
    assert evidence is not None
    assert evidence.recipe == RECIPE
    assert "Fatal Python error: Aborted" in evidence.traceback
    assert "in _crash" in evidence.traceback
    assert evidence.stderr == "last words of a library\n"


def test_workers_that_die_before_any_item_are_not_replaced_for_ever() -> None:
    result = Session(Plan(("stub",), clauses=("stub.held",)), engine="stub_engine:DeadlyEngine").run([])
    assert result.exit_code == 2
    assert [outcome.verdict for outcome in result.outcomes] == [Verdict.NOT_RUN]
    assert "workers die before they take up an item" in result.defects[0]


def test_a_crash_can_be_repeated() -> None:
    assert run("crash")["crash"].repeat == f"attnspec replay 'stub stub.crash float32 {RECIPE}'"


def test_a_hang_ends_at_the_deadline_and_everything_else_goes_on() -> None:
    outcomes = run("hang", "held", deadline=0.7)
    assert outcomes["held"].verdict is Verdict.HELD
    assert outcomes["hang"].verdict is Verdict.TIMED_OUT
    evidence = outcomes["hang"].evidence
    assert evidence is not None
    assert evidence.sentence == "the implementation had not returned after 0.7 s"
    assert evidence.recipe == RECIPE
    assert "in _hang" in evidence.traceback


def test_what_a_library_prints_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("noise")["noise"].verdict is Verdict.HELD
    assert capfd.readouterr() == ("", "")


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from attnspec.core.plan import Plan
from attnspec.record.write import RecordWriter
from attnspec.runner.session import Session
plan = Plan(("stub",), clauses=("stub.held", "stub.slow", "stub.violated"), deadline=60)
sys.exit(Session(plan, engine="stub_engine:Engine").run([RecordWriter(Path(sys.argv[2]))]).exit_code)
"""


def wait_for(path: Path, text: str) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if path.exists() and text in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.02)
    raise AssertionError(f"{text} never came")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interruption_is_swift_and_the_record_says_what_is_missing(tmp_path: Path, number: signal.Signals) -> None:
    record = tmp_path / "run.jsonl"
    command = [sys.executable, "-c", INTERRUPTED, str(STUBS), str(record)]
    with subprocess.Popen(command, start_new_session=True, cwd=tmp_path) as process:
        wait_for(record, '"clause": "stub.slow"')
        os.killpg(process.pid, number) if number is signal.SIGINT else process.send_signal(number)
        assert process.wait(timeout=60) == 2  # the verdict below says that stub.slow was not waited for
    read = read_record(record)
    assert read.interrupted
    assert [outcome.verdict.value for outcome in read.outcomes] == ["held", "not_run", "not_run"]
    assert read.outcomes[1].reason == "the run was interrupted"


def test_the_users_pytest_does_not_reach_into_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conftest.py").write_text("raise RuntimeError('a conftest of the user')\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n", encoding="utf-8")
    (tmp_path / "nuisance.py").write_text("raise RuntimeError('a plugin of the user')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "nuisance")
    assert run("held")["held"].verdict is Verdict.HELD
    assert not (tmp_path / ".pytest_cache").exists()


def test_workers_have_one_thread_and_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("XLA_FLAGS", "--xla_mine")
    before = dict(os.environ)
    with prepared():
        assert {name: os.environ[name] for name in ONE_THREAD} == dict(ONE_THREAD)
        assert os.environ["XLA_FLAGS"].startswith("--xla_mine --xla_cpu_multi_thread_eigen=false")
        assert "PYTEST_CURRENT_TEST" not in os.environ
    with prepared({"XLA_FLAGS": "--xla_hurry"}):
        assert os.environ["XLA_FLAGS"].startswith("--xla_mine --xla_hurry --xla_cpu_multi_thread_eigen=false")
    assert dict(os.environ) == before


ABORTING = """
import jax

@jax.jit
def attend(query, key, value):
    turned = (array.swapaxes(1, 2) for array in (query, key, value))
    return jax.nn.dot_product_attention(*turned).swapaxes(1, 2)
"""


def test_jaxlib_that_aborts_is_a_crash_of_its_item(tmp_path: Path) -> None:
    # jaxlib 0.10.2 on CPU: Check failed in ynn_emitter.cc, under jit, in bfloat16, at head width 1
    jaxlib = pytest.importorskip("jaxlib")
    if jaxlib.__version__ != "0.10.2":
        pytest.skip("another jaxlib, which may have mended it")
    (tmp_path / "aborting.py").write_text(ABORTING, encoding="utf-8")
    recipe = "B4,H4,Hkv4,T47,S8,D1,Dv1;mask=none;families=normal;seed=0"
    plan = Plan((f"{tmp_path}/aborting.py:attend",), clauses=("attention.shape",), dtypes=(DType.BFLOAT16,), lift="jax")
    [outcome] = Session(plan, recipe=recipe).run([]).outcomes
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.evidence is not None
    assert "Aborted" in outcome.evidence.traceback
    assert "Check fail" in outcome.evidence.stderr
