"""Carries out a plan for the `attnspec` command, and emits the events of the run.

pytest runs in this process as xdist's controller. It collects nothing, imports no subject, and
ignores the user's configuration, conftest files, plugins and PYTEST_ variables. The items run in
xdist workers, also if there is only one, since a worker may die. Workers inherit an environment in
which libraries compute with one thread, and the record describes it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Protocol

from threadpoolctl import ThreadpoolController

import attnspec
from attnspec.core.errors import CANNOT_RUN
from attnspec.core.paths import portable_argument, scratch_folder
from attnspec.core.plan import Job, Plan
from attnspec.core.surroundings import ONE_THREAD, SUBJECT_LIBRARIES, XLA_ONE_THREAD
from attnspec.record.events import (
    OWN_DEVICE,
    Done,
    Event,
    Handler,
    ItemFinished,
    RunFinished,
    RunStarted,
)
from attnspec.record.outcome import Outcome
from attnspec.runner.jobs import LAW_FILE, JobSource, Share, open_jobs, plan_text
from attnspec.runner.judge import ENGINE_CLASS, TRIAL_SOURCE, with_engine
from attnspec.runner.listener import Listener, end_worker, silent_workers
from attnspec.spec.clause import Spec
from attnspec.spec.load import hand_over_law
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.installed import audited_environment

INTERRUPTED, UNREACHED = "the run was interrupted", "the run ended before its turn came"
"""Why a job was lost that nobody took up."""

_SUITE_FILE = Path(__file__).with_name("worker.py")
# ids may hold any letter a path may hold
_PYTEST_CONFIGURATION = "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n"
_UNUSED_PLUGINS = ("terminal", "cacheprovider", "faulthandler", "logging", "warnings",
                   "unraisableexception", "threadexception", "doctest", "junitxml", "pastebin",
                   "stepwise", "setuponly", "setupplan", "debugging", "nose", "recwarn", "tmpdir",
                   "legacypath", "python", "unittest", "skipping")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run. done: in the order of the plan.  defects: failures of attnspec itself,
    to be shown and reported.
    """

    exit_code: int
    done: tuple[Done, ...]
    is_interrupted: bool
    defects: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The verdicts, where items of the engine were tried."""
        return tuple(each.outcome for each in self.done if isinstance(each, ItemFinished))


@dataclass(frozen=True, slots=True)
class Session:
    """Says how to run a plan: with how many workers, and what is carried out.

    source: names the jobs; the engine's trials by default.
    engine, recipe: for trials, the engine and, for a replay, the one case.
    sharing: which part of the run this is; None: all of it.
    carrier: carries out the jobs elsewhere; None: workers of this process do.
    """

    plan: Plan
    workers: int = 1
    command: tuple[str, ...] = ()
    engine: str = ENGINE_CLASS
    recipe: str = ""
    source: str = TRIAL_SOURCE
    sharing: Share | None = None
    carrier: Carrier | None = None

    def run(self, handlers: Sequence[Handler]) -> Result:
        """Carries out every job. Raises AttnspecError where the plan makes no sense."""
        source = open_jobs(self.source, self._plan)
        items = every = source.items()
        if self.sharing:
            items = self.sharing.select_jobs(every)
        with started_handlers(handlers) as emit, scratch_folder() as folder:
            began = time.perf_counter()
            header = source.header(self._header(source.spec, items))
            if self.sharing:
                header = self.sharing.mark_header(header, self.plan, every)
            emit(header)
            listener = Listener(source, items, self.plan, emit)
            self._work(listener, items, folder)
            listener.close_run(INTERRUPTED if listener.is_interrupted else UNREACHED)
            done = tuple(listener.done_by_job[item] for item in items)
            return self._footer(source, listener, done, emit, time.perf_counter() - began)

    @property
    def _plan(self) -> Plan:
        return with_engine(self.plan, engine=self.engine, recipe=self.recipe)

    def _header(self, spec: Spec, items: Sequence[Job]) -> RunStarted:
        plan = self.plan
        if self.carrier:
            environment = self.carrier.environment
        else:
            environment = describe_environment(self.workers, plan.device)
        return RunStarted(started=_utc_now(), command=self.command, spec_version=spec.version,
                          spec_digest=spec.digest, seed=plan.seed, effort=plan.effort.value,
                          strict=plan.strict, items=len(items),
                          dtypes=tuple(dict.fromkeys(item.dtype for item in items)),
                          environment=environment, clauses=(),
                          planned=Counter(item.target for item in items),
                          spec_added=tuple(map(portable_argument, spec.added)),
                          baseline=shown_path(Path(plan.baseline)) if plan.baseline else "",
                          must_take=plan.must_take, sizes=plan.sizes)

    def _footer(self, source: JobSource[Any], listener: Listener, done: tuple[Done, ...],
                emit: Callable[[Event], None], seconds: float) -> Result:
        end = source.conclude(done, interrupted=listener.is_interrupted)
        # where attnspec itself failed, nobody can say
        code = CANNOT_RUN if listener.defects else end.exit_code
        emit(RunFinished(_utc_now(), seconds, end.counts, code, listener.is_interrupted))
        return Result(code, done, listener.is_interrupted, tuple(listener.defects))

    def _work(self, listener: Listener, items: Sequence[Job], folder: Path) -> None:
        """Runs pytest, and once more for the items on trial when a worker died."""
        if self.carrier:
            with _termination_interrupts():
                self.carrier.carry_out(listener, self._plan, self.source, items)
            return
        self._work_on(listener, folder / "first",
                      [item.id for item in items] if self.sharing else ())
        if listener.to_repeat and not listener.is_interrupted:
            self._work_on(listener, folder / "again", [item.id for item in listener.to_repeat])

    def _work_on(self, listener: Listener, folder: Path, only: Sequence[str]) -> None:
        import pytest  # noqa: PLC0415  (weight: completion in a shell loads the commands, and runs nothing)

        folder.mkdir()
        (folder / "pytest.ini").write_text(_PYTEST_CONFIGURATION, encoding="utf-8")
        hand_over_law(folder / LAW_FILE)
        listener.watch_folder(folder)
        with prepared_environment(), watch_workers(folder), _termination_interrupts(), _importing_from_here():
            pytest.main(self._arguments(folder, only), plugins=[listener])

    def _arguments(self, folder: Path, only: Sequence[str]) -> list[str]:
        return [
            str(_SUITE_FILE), "-c", str(folder / "pytest.ini"), "--rootdir", str(_SUITE_FILE.parent), "--noconftest",
            "--import-mode=importlib", "--assert=plain", "--capture=no",
            *(word for name in _UNUSED_PLUGINS for word in ("-p", f"no:{name}")),
            "-p", "xdist.plugin", "-p", "attnspec.pytest_plugin",
            # worksteal gives each worker a run of neighbours, which share a subject and its remembered answers;
            # unlike loadscope and loadfile it goes on after a crash. Every item may cost a worker its life.
            "-n", str(self.workers), "--dist", "worksteal", "--max-worker-restart", "1000000",
            "--attnspec-plan", plan_text(self._plan), "--attnspec-traces", str(folder),
            "--attnspec-path", json.dumps(sys.path), "--attnspec-jobs", self.source,
            "--attnspec-only", json.dumps(list(only)),
        ]


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def started_handlers(handlers: Sequence[Handler]) -> Iterator[Callable[[Event], None]]:
    """Starts all handlers, yields a function that passes events to them, and shuts them down."""
    with ExitStack() as stack:
        for handler in handlers:
            handler.start()
            stack.callback(handler.shutdown)

        def emit(event: Event) -> None:
            for handler in handlers:
                handler.handle(event)

        yield emit


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """Lets targets be imported from the working directory, as `python -m` would."""
    before, here = list(sys.path), str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path[:] = before


_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


def _raise_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Makes signals that end this process raise KeyboardInterrupt inside.

    So a cancelled CI job, `timeout` or a terminal that closes leaves a record with a footer and no
    scratch folders. Signals that are ignored, as under `nohup`, stay ignored.
    """
    before = {each: signal.getsignal(each) for each in _ENDING_SIGNALS}
    for each, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(each, _raise_interrupt)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


# What may carry out the jobs of a run elsewhere


class Carrier(Protocol):
    """Carries out jobs elsewhere, and passes the results to the listener."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The part of a record's header that says where the jobs are carried out."""

    def carry_out(self, listener: Listener, plan: Plan, source: str, jobs: Sequence[Job]) -> None:
        """Carries out all jobs of this source. Raises AttnspecError if none can begin."""


# A worker that shows no sign of life


SILENCE_SECONDS = 60.0
"""Seconds without a sign of life until a worker counts as stopped; one comes each second."""

LOOK_SECONDS = 2.0
"""Seconds between two looks."""


@contextmanager
def watch_workers(folder: Path) -> Iterator[None]:
    """Kills workers that give no sign of life in this folder, as long as the context lasts."""
    over = threading.Event()
    watcher = threading.Thread(target=_end_silent_workers, args=(folder, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _end_silent_workers(folder: Path, over: threading.Event) -> None:
    looked = time.monotonic()
    while not over.wait(LOOK_SECONDS):
        slept, looked = time.monotonic() - looked > SILENCE_SECONDS / 2, time.monotonic()
        if slept:  # the whole machine was stopped, workers and all
            continue
        for worker in silent_workers(folder, looked, SILENCE_SECONDS):
            end_worker(folder, worker)


# Whatever would let the user's pytest (plugins, options, an outer xdist) reach into ours.
_FOREIGN_VARIABLES = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_XDIST_WORKER",
                      "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID",
                      "PYTEST_CURRENT_TEST")
_NAMED_PACKAGES = (*SUBJECT_LIBRARIES, "hypothesis", "pytest", "pytest-xdist")


@contextmanager
def prepared_environment(process: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Sets the variables that workers and their subjects inherit, and restores them."""
    before = dict(os.environ)
    for name in _FOREIGN_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(ONE_THREAD)
    # a plugin of Hypothesis comes with libraries such as trio: its import takes as long as
    # Hypothesis itself
    os.environ.update({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HYPOTHESIS_NO_PLUGINS": "1"})
    # a subject that iterates over a set does so alike in every worker
    os.environ.setdefault("PYTHONHASHSEED", "0")
    os.environ.update(process)
    # of flags, the user's, the subject's and ours stand side by side
    flags = (before.get("XLA_FLAGS", ""), process.get("XLA_FLAGS", ""), XLA_ONE_THREAD)
    os.environ["XLA_FLAGS"] = " ".join(filter(None, flags))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def describe_environment(workers: int, device: str = "") -> Mapping[str, str]:
    """Describes versions, machine and threads, by which a reader compares two records. If subjects
    run in another environment, the versions are of that one, and `judge` describes this one.
    """
    own = {
        "attnspec": attnspec.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": " ".join((platform.system(), *platform.libc_ver())).strip(),  # not how the kernel calls itself
        "machine": platform.machine(),
        "cpus": str(os.cpu_count() or ""),
        "device": device or OWN_DEVICE,
        "workers": str(workers),
        "threads": "1 a worker",
        **_package_versions(),
    }
    audited = audited_environment(SUBJECT_LIBRARIES)
    if not audited:
        return own
    rest = {name: value for name, value in own.items() if name not in SUBJECT_LIBRARIES}
    return {**rest, **audited, "judge": f"{own['python']}, NumPy {own['numpy']}"}


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in _NAMED_PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits BLAS, OpenMP and PyTorch to one thread: for small problems more are slower."""
    with _torch_has_one(), _thread_pools(len(sys.modules)).limit(limits=1):
        yield


@contextmanager
def _torch_has_one() -> Iterator[None]:
    """Limits PyTorch to one thread by its own call. PyTorch's first call sets the pool to what
    PyTorch was last asked for.
    """
    torch: Any = sys.modules.get("torch")  # not imported: then it has no threads
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> ThreadpoolController:
    """Finds the pools of this process, again after each import, which may have added one. The
    search takes milliseconds, and a gate has hundreds of items.
    """
    return ThreadpoolController()
