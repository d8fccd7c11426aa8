"""Workers of a cluster as real processes: what they record is what one machine records, also where one is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import attnspec
import pytest
from attnspec.cli import main
from attnspec.cluster import worker
from attnspec.cluster.carrier import connect_cluster
from attnspec.cluster.worker import Task, TaskResult, WorkerQuestion, read_address
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.record.codec import encode
from attnspec.runner.judge import ENGINE_CLASS, TRIAL_SOURCE, with_engine
from helpers.records import lines_but_for_times

WHAT = ("sound/naive", "numpy/attention", "--clause", "attention.shape", "--dtype", "float32", "--effort", "glance")
SLOW = """import time
from pathlib import Path


def attend(query, key, value):
    Path(__file__).with_name("begun").touch()
    time.sleep(600)
"""
PLAN = Plan(("numpy/attention",), clauses=("attention.shape",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE)


def task(plan: Plan, folder: Path) -> Task:
    groups = tuple((target, "float32") for target in plan.targets)
    return Task("a run", with_engine(plan, engine=ENGINE_CLASS, recipe=""), TRIAL_SOURCE, groups, str(folder))


def test_a_worker_tells_what_it_can_judge(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SLOW, encoding="utf-8")
    targets = ("numpy/attention", "mine.py:attend", "other.py:attend", "nowhere.at:all", "mine:attend", "sound/naive")
    told = worker.answer_question(WorkerQuestion(replace(PLAN, targets=targets), str(tmp_path)))
    assert told.version == attnspec.__version__
    assert told.environment["numpy"]
    assert {target: reason for target, reason in told.missing.items() if reason} == {
        "other.py:attend": f"there is no file other.py in {tmp_path} on any worker's machine.",
        "nowhere.at:all": "no worker can import nowhere."}


def test_a_worker_tells_what_of_the_command_it_has_not(tmp_path: Path) -> None:
    told = worker.answer_question(WorkerQuestion(replace(PLAN, spec_add=("mine.yaml",), baseline="known.yaml"),
                                                 str(tmp_path)))
    assert told.absent == (str(tmp_path / "mine.yaml"), str(tmp_path / "known.yaml"))


def test_what_is_wrong_where_a_worker_is_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.yaml").write_text("library: [", encoding="utf-8")
    told = worker.answer_question(WorkerQuestion(replace(PLAN, implementations=(str(tmp_path),)), str(tmp_path)))
    assert "manifest.yaml" in told.wrong


def test_a_part_of_a_run_without_a_result_tells_its_last_words(tmp_path: Path) -> None:
    part = worker.judge_task(replace(task(PLAN, tmp_path), source="nowhere:Nothing"))
    assert part.lines == ()
    assert part.wrong.startswith("its process ended with exit code 1 and no result.\nTraceback")


@pytest.mark.nightly
def test_a_part_of_a_run_is_ended_where_its_client_leaves(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    parts: list[TaskResult] = []
    slow = task(replace(PLAN, targets=("slow.py:attend",)), tmp_path)
    judging = threading.Thread(target=lambda: parts.append(worker.judge_task(slow)))
    judging.start()
    wait_until((tmp_path / "begun").exists)
    worker.stop_run("another run")
    judging.join(0.5)
    assert judging.is_alive()
    worker.stop_run("a run")
    judging.join(60)
    assert parts == [TaskResult(wrong="it was interrupted.")]


def test_a_part_of_a_run_ends_with_its_worker(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    slow = json.dumps(encode(task(replace(PLAN, targets=("slow.py:attend",)), tmp_path)))
    code = "from attnspec.cluster import worker; import sys; worker.judge_text(sys.argv[1])"
    with ended([judging := subprocess.Popen([sys.executable, "-c", code, slow], env=with_path())]):
        part = child_of(judging)
        wait_until((tmp_path / "begun").exists)
        judging.kill()
        wait_until(lambda: not is_alive(part))


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Fail where it does not come to hold in this time."""
    latest = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < latest
        time.sleep(0.05)


def is_alive(process: str) -> bool:
    """Whether it runs; one that has ended and is not waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def child_of(process: subprocess.Popen[bytes]) -> str:
    """The id of the process that it has started, as soon as there is one."""
    while not (found := subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True,
                                       check=False).stdout.split()):
        time.sleep(0.05)
    return found[0]


def with_path() -> dict[str, str]:
    """The environment of a process that sees what the tests see: the package may not be installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def words_of(*words: str) -> list[str]:
    """Dask's command, without depending on where its script lies."""
    return [sys.executable, "-m", "dask", *words]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler that was started by hand."""
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'attnspec[cluster]'")
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    started = subprocess.Popen(words_of("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                                        "--scheduler-file", str(file)), stderr=subprocess.DEVNULL)
    with ended([started]):
        while not file.exists() or not (text := file.read_text(encoding="utf-8")).rstrip().endswith("}"):
            time.sleep(0.05)
        yield text.partition('"address": "')[2].partition('"')[0]


@contextlib.contextmanager
def ended(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """In the end, they have ended."""
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def start_worker(scheduler: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words_of("worker", scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                                     "--local-directory", str(folder)),
                            env=with_path(), stderr=subprocess.DEVNULL)


def kill_at_work(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, as soon as it judges something."""
    child_of(process)
    os.kill(process.pid, signal.SIGKILL)


def single(folder: Path) -> Path:
    assert main(["check", *WHAT, "-n", "1", "--record", str(folder / "one.jsonl")]) == 0
    return folder / "one.jsonl"


@pytest.mark.nightly
def test_a_killed_worker_changes_no_line_of_the_record(
    scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    workers = [start_worker(scheduler, tmp_path) for _ in range(2)]
    with ended(workers):
        killing = threading.Thread(target=kill_at_work, args=(workers[0],))
        killing.start()
        wait_for(scheduler, 2)
        assert main(["check", *WHAT, "--cluster", scheduler, "--record", str(tmp_path / "many.jsonl")]) == 0
        killing.join()
    assert workers[0].returncode == -signal.SIGKILL
    assert "done, 2 of 2 subjects" in capsys.readouterr().out
    assert lines_but_for_times(tmp_path / "many.jsonl") == lines_but_for_times(single(tmp_path))


def wait_for(scheduler: str, workers: int) -> None:
    with connect_cluster(read_address(scheduler), {}) as connection:
        while len(connection.workers()) < workers:
            time.sleep(0.1)


def test_a_scheduler_without_workers_is_refused(scheduler: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *WHAT, "--cluster", scheduler]) == 2
    assert capsys.readouterr().err == "attnspec: the scheduler has no workers. Start some: dask worker ADDRESS.\n"


def test_an_address_at_which_nobody_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'attnspec[cluster]'")
    monkeypatch.setattr("attnspec.cluster.carrier.ANSWER_SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9: .* `dask scheduler`"), \
            connect_cluster(read_address("tcp://127.0.0.1:9"), {}):
        pass


KERNEL = '''import numpy as np


def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(query.shape[-1] ** 0.5)
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True) @ value
'''


@pytest.mark.nightly
def test_workers_that_are_started_for_the_run_rank_as_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'attnspec[cluster]'")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "right.py").write_text(KERNEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ["rank", "kernels", "--clause", "attention.shape", "--dtype", "float64"]
    codes = [main([*words, *how]) for how in (("-n", "1", "--record", "one.jsonl"),
                                              ("--cluster", "local:1", "--record", "many.jsonl"))]
    assert codes == [0, 0]
    assert lines_but_for_times(Path("many.jsonl")) == lines_but_for_times(Path("one.jsonl"))
