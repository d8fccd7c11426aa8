"""Runs jobs in a worker of the `attnspec` command, and leaves files that explain its death.

No subject runs in a worker, so if one dies, attnspec has a defect, or something outside killed it.
These small files remain: `.crumb` (its first line is the case on trial), `.trace` (where every
thread stood when the process died), `.stderr` (what was printed during the item), `.failure` (how
the item has failed so far) and `.beat` (a sign of life). The controller, which imports no pytest,
reads them (listener.py).

A worker collects an item of pytest for each job of the plan's source. The items are no test
functions: setup and fixtures took longer than most jobs, since three of four jobs only find that a
clause does not apply. `attnspec.gate` makes tests of the same items of the engine in a user's test
file.
"""

from __future__ import annotations

import faulthandler
import functools
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Job
from attnspec.record.codec import encode, to_line
from attnspec.record.events import Done
from attnspec.record.outcome import SubjectCard
from attnspec.runner.jobs import LAW_FILE, UNTOLD, CountsCompiling, JobSource, KnowsTried, plan_of, source_of
from attnspec.spec.load import take_over_law

SUITE_FILE = Path(__file__)
"""The file that is handed to pytest."""

UNTOLD_SECONDS = 1.0
"""Seconds that the end of a job may wait for the next report."""


class JobItem(pytest.Item):
    """Carries out a job as an item of pytest. `user_properties` take the result, the subject's
    card if it has changed, and the seconds of compilers to the controller.
    """

    def __init__(self, *, job: Job, jobs: JobFile, **of_pytest: Any) -> None:  # noqa: ANN401  (pytest's own arguments)
        super().__init__(**of_pytest)
        self._job, self._jobs = job, jobs

    def end_untried(self) -> bool:
        """Carries out a job that calls nothing, whose result goes with the next report. It returns
        False for any other job. Three of four jobs are such, and a report costs more than they do.
        """
        with suppress(Exception):  # the job is tried, then, and what went wrong is told
            if self._jobs.may_end_untried(self._job):
                self._jobs.untold.append(to_line(self._jobs.source.carry_out(self._job)))
                return True
        return False

    def tell_untold(self) -> None:
        """Reports earlier jobs before this one is tried, which may end the process."""
        if lines := self._jobs.pop_untold():
            report = pytest.TestReport(self.nodeid, self.location, {}, "passed", None, "setup",
                                       user_properties=[(UNTOLD, line) for line in lines])
            self.ihook.pytest_runtest_logreport(report=report)

    def runtest(self) -> None:
        """Carries out the job."""
        self.user_properties.append(("attnspec", to_line(self._jobs.source.carry_out(self._job))))
        _freeze_garbage()
        if seconds := self._jobs.newly_compiling(self._job.target):
            self.user_properties.append(("attnspec-compiling", f"{seconds:.1f}"))
        if card := self._jobs.new_card(self._job.target):
            self.user_properties.append(("attnspec-card", json.dumps(encode(card))))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Returns the heading of a failure, which is one of attnspec itself."""
        return self.path, None, self.name


class JobFile(pytest.File):
    """Collects all jobs of a source as the items of one file."""

    def __init__(self, *, source: JobSource[Any], **of_pytest: Any) -> None:  # noqa: ANN401  (pytest's own arguments)
        super().__init__(**of_pytest)
        self.source = source
        # the card of each subject, as this worker last reported it
        self._sent: dict[str, SubjectCard | None] = {}
        self._compiling: dict[str, float] = {}  # likewise
        self.untold: list[str] = []
        """How jobs ended that had no report: a line of a record each."""
        self._told = time.monotonic()
        self._is_tried = source.is_tried if isinstance(source, KnowsTried) else lambda _: True

    def may_end_untried(self, job: Job) -> bool:
        """Whether a job calls nothing, its subject is known, and the last report is recent."""
        return (job.target in self._sent and time.monotonic() - self._told < UNTOLD_SECONDS
                and not self._is_tried(job))

    def pop_untold(self) -> list[str]:
        """Returns the results of jobs that had no report, and empties the list."""
        self._told, lines, self.untold = time.monotonic(), self.untold, []
        return lines

    def collect(self) -> Iterator[JobItem]:
        """Yields one item per job, named by the job's id."""
        only = frozenset(json.loads(str(self.config.getoption("attnspec_only"))))
        for job in self.source.items():
            if not only or job.id in only:
                yield JobItem.from_parent(self, name=f"job[{job.id}]", job=job, jobs=self)

    def newly_compiling(self, target: str) -> float:
        """Returns the seconds of compilers for the subject since the last call."""
        if not isinstance(self.source, CountsCompiling):
            return 0.0
        before, seconds = self._compiling.get(target, 0.0), self.source.seconds_compiling(target)
        self._compiling[target] = seconds
        return max(0.0, seconds - before)

    def new_card(self, target: str) -> SubjectCard | None:
        """Returns the subject's card if it is new, else None. If the subject cannot be loaded
        there is no card; its outcomes say why.
        """
        try:
            card = self.source.card(target)
        except AttnspecError:
            return None
        is_known = target in self._sent and self._sent[target] == card
        self._sent[target] = card
        if is_known:
            return None
        return card


@functools.cache
def _freeze_garbage() -> None:
    """Exempts what the first job imported from garbage collection, which took 5 % of all time."""
    gc.freeze()


BEAT_SECONDS = 1.0
"""Seconds between two signs of life. The time of a case may begin so much late: most are over by
then, and setting the clock takes a thread.
"""

OWN_SECONDS = 60.0
"""Seconds that attnspec's own part of a case may take beside the deadline of its calls."""


class Guard:
    """A pytest plugin that leaves a worker's files and ends a judge that takes too long. deadline:
    seconds for the calls of an item, each measured at its call.
    """

    def __init__(self, folder: Path, worker: str, deadline: float) -> None:
        self._limit = 2 * deadline + OWN_SECONDS
        # which of the item's cases is on trial, and whose time runs; 0: none
        self._current_case = self._timed_case = 0
        self._clock = threading.Lock()
        self._crumb = (folder / f"{worker}.crumb").open("wb", buffering=0)
        self._trace = _open_trace(folder, worker, "trace")
        self._stderr = _open_trace(folder, worker, "stderr")
        self._failure = _open_trace(folder, worker, "failure")
        (folder / f"{worker}.pid").write_text(str(os.getpid()), encoding="ascii")
        # Ctrl-C reaches the whole process group; the controller alone answers it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        faulthandler.enable(self._trace)
        os.dup2(self._stderr.fileno(), 2)
        threading.Thread(target=self._beat_for_ever, args=(folder / f"{worker}.beat",),
                         daemon=True).start()

    @classmethod
    def install_guard(cls, config: pytest.Config) -> Guard:
        """Makes the guard of this worker, with the controller's import path. xdist gives workers
        the path as it was when xdist was imported.
        """
        sys.path[:] = json.loads(str(config.getoption("attnspec_path")))
        folder = Path(str(config.getoption("attnspec_traces")))
        take_over_law(folder / LAW_FILE)
        worker: str = config.workerinput["workerid"]  # type: ignore[attr-defined]  # xdist adds it
        return cls(folder, worker, plan_of(config).deadline)

    def drop_crumb(self, recipe: str) -> None:
        """Writes down the case on trial, whose time begins now: one system call."""
        os.pwrite(self._crumb.fileno(), f"{recipe}\n".encode(), 0)
        self._current_case += 1

    def keep_failure(self, failed: Done) -> None:
        """Writes down how the item has failed, before a smaller case and a cause are sought."""
        self._failure.write(to_line(failed).encode() + b"\n")

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> JobFile | None:
        """Makes jobs of the one file that pytest is given, and of no other."""
        if not file_path.samefile(SUITE_FILE):
            return None
        source = source_of(parent.config, self.drop_crumb, self.keep_failure)
        return JobFile.from_parent(parent, path=file_path, source=source)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Sends the results of the last jobs, before xdist closes the worker."""
        files = dict.fromkeys(item.parent for item in session.items)
        lines = [line for file in files if isinstance(file, JobFile) for line in file.pop_untold()]
        session.config.workeroutput[UNTOLD] = lines  # type: ignore[attr-defined]  # xdist adds it

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: JobItem) -> bool:
        """Runs an item, and ends the process if the judge takes too long."""
        for file in (self._trace, self._stderr, self._failure):
            file.truncate(0)
        self.drop_crumb("")
        try:
            _carry_out(item)
        finally:
            self._stop_clock()
        return True

    def _beat_for_ever(self, beat: Path) -> None:
        """Gives signs of life until the folder is gone, when the run is over."""
        while True:
            try:
                beat.write_text(str(time.monotonic()), encoding="ascii")
            except OSError:
                return
            time.sleep(BEAT_SECONDS)
            self._set_clock()

    def _set_clock(self) -> None:
        """Starts the time of the case on trial, in a thread without the interpreter lock."""
        with self._clock:
            if self._timed_case != self._current_case:
                self._timed_case = self._current_case
                faulthandler.dump_traceback_later(self._limit, exit=True, file=self._trace)

    def _stop_clock(self) -> None:
        """Stops the time: a worker may wait for its next item as long as it likes."""
        with self._clock:
            if self._timed_case:
                faulthandler.cancel_dump_traceback_later()
            self._current_case = self._timed_case = 0


def _carry_out(item: JobItem) -> None:
    """Does what pytest does with an item that has no setup and no teardown."""
    if item.end_untried():
        return
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.tell_untold()
    call = pytest.CallInfo.from_call(item.runtest, when="call",
                                     reraise=(pytest.exit.Exception, KeyboardInterrupt))
    hook.pytest_runtest_logreport(report=hook.pytest_runtest_makereport(item=item, call=call))


def _open_trace(folder: Path, worker: str, suffix: str) -> BinaryIO:
    # appending, so that a file truncated behind the back of whoever prints into it has no hole
    return (folder / f"{worker}.{suffix}").open("ab", buffering=0)
