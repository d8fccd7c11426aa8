"""What crashes, hangs or talks costs its own item and nothing else, be it a subject or a worker; the user's pytest is
not ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.paths import scratch_folder
from attnspec.core.plan import Plan
from attnspec.core.surroundings import ONE_THREAD
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.runner import session
from attnspec.runner.listener import last_words
from attnspec.runner.session import Result, Session, prepared_environment
from helpers.places import STUBS
from helpers.records import evidence_of

pytestmark = pytest.mark.usefixtures("stubs")
RECIPE = "B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=normal;seed=3"


# --- subjects, which live in processes of their own

SUBJECTS = """
import os, signal, sys, time
import numpy as np

def held(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value

def aborts(query, key, value):
    sys.stderr.write("last words of a library\\n")
    os.abort()

def segfaults(query, key, value):
    os.kill(os.getpid(), signal.SIGSEGV)

def leaves(query, key, value):
    os._exit(3)

def hangs(query, key, value):
    time.sleep(600)

def stops(query, key, value):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def judged(folder: Path, *names: str, deadline: float = 20) -> dict[str, Outcome]:
    """The outcomes of one clause on these subjects, by name."""
    (folder / "mine.py").write_text(SUBJECTS, encoding="utf-8")
    plan = Plan(tuple(f"{folder}/mine.py:{name}" for name in names), clauses=("attention.shape",),
                dtypes=(DType.FLOAT32,), effort=Effort.GLANCE, deadline=deadline)
    result = Session(plan).run([])
    assert not result.defects
    return {outcome.subject.rpartition(":")[2]: outcome for outcome in result.outcomes}


def test_a_subject_that_crashes_costs_its_own_items_and_the_others_go_on(tmp_path: Path) -> None:
    outcomes = judged(tmp_path, "segfaults", "held", "leaves")
    died = "the process died while the implementation ran"
    assert {name: (outcome.verdict.value, outcome.reason) for name, outcome in outcomes.items()} == {
        "held": ("held", ""), "segfaults": ("crashed", f"{died} (SIGSEGV)"),
        "leaves": ("crashed", f"{died} (exit code 3)")}


def test_a_crash_leaves_its_case_its_stack_and_what_was_printed(tmp_path: Path) -> None:
    crash = judged(tmp_path, "aborts")["aborts"]
    evidence = evidence_of(crash)
    assert crash.repeat == f"attnspec replay '{crash.subject} attention.shape float32 {evidence.recipe}'"
    assert "Fatal Python error: Aborted" in evidence.traceback
    assert "in aborts" in evidence.traceback
    assert evidence.stderr == "last words of a library\n"


@pytest.mark.family(1)
@pytest.mark.parametrize("name", ["hangs", "stops"])
def test_a_subject_that_never_returns_ends_at_the_deadline(tmp_path: Path, name: str) -> None:
    outcomes = judged(tmp_path, name, "held", deadline=1.5)
    assert (outcomes[name].verdict, outcomes["held"].verdict) == (Verdict.TIMED_OUT, Verdict.HELD)
    evidence = evidence_of(outcomes[name])
    assert evidence.sentence == "the implementation had not returned after 1.5 s"
    assert evidence.recipe
    assert name == "stops" or "in hangs" in evidence.traceback  # what is stopped cannot say where it stands


# --- workers, whose deaths are attnspec's own or come from outside

def result_of(*clauses: str, targets: tuple[str, ...] = ("stub",), workers: int = 1) -> Result:
    plan = Plan(targets, clauses=tuple(f"stub.{name}" for name in clauses), deadline=20)
    return Session(plan, workers, engine="stub_engine:Engine").run([])


def by_clause(result: Result) -> dict[str, Outcome]:
    return {outcome.clause.removeprefix("stub."): outcome for outcome in result.outcomes}


def run(*clauses: str) -> dict[str, Outcome]:
    result = result_of(*clauses)
    assert not result.defects
    return by_clause(result)


@pytest.mark.family(1)
@pytest.mark.workers
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies_costs_its_own_item_and_the_others_go_on(workers: int) -> None:
    result = result_of("held", "crash", "lacking", "segfault", "violated", workers=workers)
    assert {name: outcome.verdict.value for name, outcome in by_clause(result).items()} == {
        "held": "held", "crash": "not_run", "lacking": "inapplicable", "segfault": "not_run", "violated": "violated"}
    assert len(result.defects) == 2


@pytest.mark.workers
def test_a_worker_that_dies_twice_at_an_item_is_a_defect_that_says_where() -> None:
    result = result_of("crash")
    why = "a process of attnspec died at this item, twice, with no call of the implementation running"
    assert by_clause(result)["crash"].reason == f"defect of attnspec: {why}"
    [defect] = result.defects
    assert defect.startswith(f"stub-stub.crash-float32: {why}\n{RECIPE}\nFatal Python error: Aborted\n")
    assert "in _crash" in defect
    assert defect.endswith("\nlast words of a library\n")
    assert result.exit_code == 2


@pytest.mark.workers
@pytest.mark.parametrize("name", ["killed_once", pytest.param("stopped_once", marks=pytest.mark.nightly)])
def test_an_item_at_which_a_worker_was_killed_or_stopped_is_repeated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STUB_MARK", str(tmp_path / "mark"))
    monkeypatch.setattr(session, "SILENCE_SECONDS", 6.0)
    outcomes = run(name, "held")
    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.HELD}
    assert (tmp_path / "mark").exists()


@pytest.mark.nightly
@pytest.mark.workers
def test_any_number_of_items_may_end_their_workers() -> None:
    targets = tuple("abcdef")
    result = result_of("crash", targets=targets)
    assert [defect.partition("-")[0] for defect in result.defects] == list(targets)


@pytest.mark.workers
def test_workers_that_die_before_any_item_are_not_replaced_for_ever() -> None:
    result = Session(Plan(("stub",), clauses=("stub.held",)), engine="stub_engine:DeadlyEngine").run([])
    assert result.exit_code == 2
    assert [outcome.verdict for outcome in result.outcomes] == [Verdict.NOT_RUN]
    assert "workers die before they take up an item" in result.defects[0]


ENDLESS = """
import sys, time
from pathlib import Path
from attnspec.runner import worker
worker.OWN_SECONDS = 0.5
watched = worker.Guard(Path(sys.argv[1]), "worker", 0.1)
def never_ends():
    watched.drop_crumb("a case that takes many more words than the one after it, " * 9)
    watched.drop_crumb(sys.argv[2])
    time.sleep(60)
never_ends()
"""


def test_a_worker_that_comes_to_no_end_ends_itself_and_says_where_it_stood(tmp_path: Path) -> None:
    program = tmp_path / "endless.py"
    program.write_text(ENDLESS, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(program), str(tmp_path), RECIPE], check=False, timeout=30)
    words = last_words(tmp_path, "worker")
    assert ended.returncode == 1
    assert (words.verdict, words.recipe) == (Verdict.TIMED_OUT, RECIPE)
    assert "in never_ends" in words.traceback


WAITING = """
import sys, time
from pathlib import Path
from unittest.mock import Mock
from attnspec.runner import worker
worker.OWN_SECONDS = 0.5
watched = worker.Guard(Path(sys.argv[1]), "worker", 0.1)
watched.pytest_runtest_protocol(Mock(nodeid="one", runtest=lambda: time.sleep(worker.BEAT_SECONDS + 0.2)))
time.sleep(worker.BEAT_SECONDS + 1)
"""


@pytest.mark.nightly
def test_a_worker_may_wait_for_its_next_item_as_long_as_it_takes(tmp_path: Path) -> None:
    program = tmp_path / "waiting.py"
    program.write_text(WAITING, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(program), str(tmp_path)], check=False, timeout=30)
    assert (ended.returncode, last_words(tmp_path, "worker").traceback) == (0, "")


@pytest.mark.workers
def test_what_a_library_prints_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("noise")["noise"].verdict is Verdict.HELD
    assert capfd.readouterr() == ("", "")


INTERRUPTED = """
import signal
import sys
import tempfile
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where they run under nohup
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


@contextmanager
def slow_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has come to its slow clause, in a process of its own. Its record and temporary files are here."""
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    record = folder / "run.jsonl"
    command = [sys.executable, "-c", INTERRUPTED, str(STUBS), str(record)]
    with subprocess.Popen(command, start_new_session=True, cwd=folder) as process:
        wait_for(record, '"clause": "stub.slow"')
        yield process


def scratch_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("attnspec-scratch-*"))


@pytest.mark.family(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1],
                         ids=["ctrl-c", "terminated", "the terminal closes", "a batch system's warning"])
def test_an_interruption_is_swift_and_the_record_says_what_is_missing(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with slow_run(tmp_path, monkeypatch) as process:
        os.killpg(process.pid, number) if number is signal.SIGINT else process.send_signal(number)
        assert process.wait(timeout=60) == 2  # the verdict below says that stub.slow was not waited for
    read = read_record(tmp_path / "run.jsonl")
    assert read.is_interrupted
    assert [outcome.verdict.value for outcome in read.outcomes] == ["held", "not_run", "not_run"]
    assert read.outcomes[1].reason == "the run was interrupted"
    assert scratch_folders() == []


def test_what_a_killed_run_leaves_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with slow_run(tmp_path, monkeypatch) as process:
        [in_use] = scratch_folders()
        with scratch_folder() as mine:
            assert set(scratch_folders()) == {in_use, mine}
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    assert scratch_folders() == [in_use]
    with scratch_folder() as mine:
        assert scratch_folders() == [mine]


@pytest.mark.workers
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
    with prepared_environment():
        assert {name: os.environ[name] for name in ONE_THREAD} == dict(ONE_THREAD)
        assert os.environ["XLA_FLAGS"].startswith("--xla_mine --xla_cpu_multi_thread_eigen=false")
        assert "PYTEST_CURRENT_TEST" not in os.environ
        assert os.environ["HYPOTHESIS_NO_PLUGINS"] == "1"
    with prepared_environment({"XLA_FLAGS": "--xla_hurry"}):
        assert os.environ["XLA_FLAGS"].startswith("--xla_mine --xla_hurry --xla_cpu_multi_thread_eigen=false")
    assert dict(os.environ) == before


ABORTING = """
import jax

@jax.jit
def attend(query, key, value):
    turned = (array.swapaxes(1, 2) for array in (query, key, value))
    return jax.nn.dot_product_attention(*turned).swapaxes(1, 2)
"""


@pytest.mark.nightly
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
    assert "Aborted" in evidence_of(outcome).traceback
    assert "Check fail" in evidence_of(outcome).stderr
