"""Runs in a worker of a cluster: says what can be judged there, and judges parts of a run.

It also defines the address of a cluster and the messages between a client and its workers. They
are plain data, which any Python can unpickle. Each part is judged in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import attnspec
from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.paths import scratch_folder, write_whole
from attnspec.core.plan import Plan, is_own
from attnspec.record.codec import decode, encode, to_line
from attnspec.record.events import Event, Handler, ItemStarted, RunFinished, RunStarted, SubjectCompiles
from attnspec.record.write import Group
from attnspec.runner.jobs import NamedGroups
from attnspec.runner.session import Session, describe_environment
from attnspec.spec.load import load_spec
from attnspec.subjects.installed import is_installed, look_in
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects

MOST_WORKERS = 1024
ADDRESS_FORMS = "Write tcp://HOST:PORT for a scheduler that runs, or local:4 to start four workers here."


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A scheduler's address or, if that is empty, the number of workers to start here."""

    scheduler: str = ""
    workers: int = 0

    def __str__(self) -> str:
        return self.scheduler or f"local:{self.workers}"


def read_address(text: str) -> ClusterAddress:
    """Reads the address of a cluster. Raises UsageError for any other text."""
    if local := re.fullmatch(r"local:(\d{1,5})", text):
        workers = int(local[1])
        if not 1 <= workers <= MOST_WORKERS:
            raise UsageError(
                f"{text} starts {workers:,} workers. Start at least 1 and at most {MOST_WORKERS:,}.")
        return ClusterAddress(workers=workers)
    port = re.fullmatch(r"(?:tcp|tls)://(?:[^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})", text)
    if not port or not 1 <= int(port[1]) <= 65_535:
        raise UsageError(f"{text!r} is no address of a cluster. {ADDRESS_FORMS}")
    return ClusterAddress(scheduler=text)


@dataclass(frozen=True, slots=True)
class WorkerQuestion:
    """Asks a worker what it can judge. plan: of a run; a plan without targets asks for all
    registered subjects.  folder: the working directory of the client.
    """

    plan: Plan
    folder: str


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """Says what a worker can judge.

    version: of attnspec.
    digest: of the spec that the plan names.
    missing: for each target, why it cannot be judged there; empty if it can.
    releases: for each target, the version of its library.
    absent: files that the plan names and that do not exist there.
    wrong: why the worker cannot answer.
    """

    version: str
    digest: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A part of a run that one worker carries out. run: the name of the run, by which the worker
    finds the processes of it.
    """

    run: str
    plan: Plan
    source: str
    groups: tuple[Group, ...]
    folder: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task.

    lines: of its record.
    defects: failures of attnspec itself.
    wrong: why there is no result.
    seconds: how long it took, without the start of its process.
    """

    lines: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    wrong: str = ""
    seconds: float = 0.0


_BOOT_PROGRAM = ("import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
                 "from attnspec.cluster.worker import main; main()")
"""The process has its worker's path, and no variable tells: subjects' own would heed that."""

_DASK_VARIABLES = frozenset({"MALLOC_TRIM_THRESHOLD_"})
"""What Dask's nannies set in a worker: memory goes back to the system at once, which makes a
judge's many small arrays take three times as long.
"""

_LAST_PRINTED = 2000
"""Characters of what a process printed that ended without a result."""

_running_processes: dict[str, list[subprocess.Popen[bytes]]] = {}


def answer_question(question: WorkerQuestion) -> WorkerAnswer:
    """Answers what can be judged here. An error is an answer, too."""
    plan, folder = _absolute_plan(question), Path(question.folder)
    files = (*plan.implementations, plan.spec, *plan.spec_add, plan.baseline)
    if absent := tuple(name for name in files if name and not Path(name).exists()):
        return WorkerAnswer(attnspec.__version__, absent=absent)
    try:
        look_in(plan.surroundings({}))
        known = registered_subjects(plan.implementations)
        wanted = plan.targets or tuple(known)
        return WorkerAnswer(attnspec.__version__, load_spec(plan.spec, plan.spec_add).digest,
                            describe_environment(1, plan.device),
                            missing={target: _why_missing(target, known, folder)
                                     for target in wanted},
                            releases={target: known[target].library.version for target in wanted
                                      if target in known})
    except AttnspecError as problem:
        return WorkerAnswer(attnspec.__version__, wrong=str(problem))


def _absolute_plan(question: WorkerQuestion) -> Plan:
    """Makes relative names in the plan absolute, since this process has another folder."""
    plan, folder = question.plan, Path(question.folder)
    return replace(plan, spec_add=tuple(str(folder / name) for name in plan.spec_add),
                   baseline=str(folder / plan.baseline) if plan.baseline else "")


def _why_missing(target: str, known: Mapping[str, Registered], folder: Path) -> str:
    """Says why a target cannot be judged here, as far as that is known without an import."""
    if target in known:
        return known[target].why_missing
    place, _, _ = target.rpartition(":")
    if is_own(target) or not place:
        return ""
    if place.endswith(".py"):
        if (folder / place).is_file():
            return ""
        return f"there is no file {place} in {folder} on any worker's machine."
    top = place.partition(".")[0]
    is_here = (folder / top).is_dir() or (folder / f"{top}.py").is_file() or is_installed(top)
    if is_here:
        return ""
    return f"no worker can import {top}."


def judge_text(task: str) -> str:
    """Judges a task in JSON, and answers in JSON."""
    return json.dumps(encode(judge_task(decode(Task, json.loads(task)))))


def judge_task(task: Task) -> TaskResult:
    """Judges a task in a process of its own, which ends if this worker ends."""
    with scratch_folder() as scratch, tempfile.TemporaryFile() as printed:
        result = scratch / "part.json"
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT_PROGRAM, json.dumps(sys.path), str(result)],
            stdin=subprocess.PIPE, stdout=printed, stderr=printed,
            cwd=task.folder if Path(task.folder).is_dir() else scratch,
            env={name: value for name, value in os.environ.items() if name not in _DASK_VARIABLES})
        _running_processes.setdefault(task.run, []).append(process)
        _hand_over(process, task)
        process.wait()
        _running_processes[task.run].remove(process)
        if result.is_file():
            return decode(TaskResult, json.loads(result.read_text(encoding="utf-8")))
        printed.seek(0)
        tail = printed.read().decode("utf-8", "replace")[-_LAST_PRINTED:]
        reason = f"its process ended with exit code {process.returncode} and no result.\n{tail}"
        return TaskResult(wrong=reason.strip())


def _hand_over(process: subprocess.Popen[bytes], task: Task) -> None:
    """Writes the task to the process, whose pipe stays open as long as this worker lives."""
    assert process.stdin is not None  # a pipe
    try:
        process.stdin.write(json.dumps(encode(task)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:  # how it ended, its exit code tells
        pass


def stop_run(run: str) -> None:
    """Ends the processes of a run whose client has left."""
    for process in _running_processes.get(run, ()):
        process.terminate()


class RecordLines(Handler):
    """Keeps the lines of a record, without header and footer: the client writes those."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._began = 0.0

    def handle(self, event: Event) -> None:
        """Keeps the line of an event."""
        if isinstance(event, ItemStarted) and not self._began:
            self._began = time.monotonic()
        if not isinstance(event, RunStarted | RunFinished | SubjectCompiles):
            self.lines.append(to_line(event))

    @property
    def seconds(self) -> float:
        """The seconds since the first item began."""
        if self._began:
            return time.monotonic() - self._began
        return 0.0


def carry_out_task(task: Task) -> TaskResult:
    """Judges the task in this process. An interrupted task has no result."""
    record = RecordLines()
    try:
        result = Session(task.plan, source=task.source,
                         sharing=NamedGroups(frozenset(task.groups))).run([record])
    except AttnspecError as problem:
        return TaskResult(wrong=str(problem))
    if result.is_interrupted:
        return TaskResult(wrong="it was interrupted.")
    return TaskResult(tuple(record.lines), result.defects, seconds=record.seconds)


def main() -> None:
    """Reads the task from standard input, and writes its result to the file of the argument."""
    task = decode(Task, json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_worker, daemon=True).start()
    part = carry_out_task(task)
    write_whole(Path(sys.argv[2]), json.dumps(encode(part)), "part")


def _end_with_worker() -> None:
    """Ends this process once its worker's pipe closes, also if the worker was killed."""
    while os.read(0, 1):  # not by way of `sys.stdin`, whose lock Python wants when it ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
