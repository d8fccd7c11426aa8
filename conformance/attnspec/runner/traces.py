"""Inside a worker: leave what explains a death, and die in time. In the controller: read what a dead worker left."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from attnspec.core.nouns import Verdict
from attnspec.core.paths import portable
from attnspec.runner.jobs import plan_of
from attnspec.subjects.stderr import keep_in

STDERR_END = 2000  # characters kept at either end of what libraries printed
_OURS = re.compile(
    r"^Extension modules:|File \"(<string>|.*/(_pytest|pluggy|xdist|execnet|"
    r"attnspec/(runner|engine|diagnosis|trials|vocabulary))/)")
_TIMEOUT = "Timeout ("  # how faulthandler begins when a deadline passes


@dataclass(frozen=True, slots=True)
class LastWords:
    """How a worker ended: by its deadline or otherwise, on which case, and where every thread stood."""

    verdict: Verdict
    recipe: str
    traceback: str
    stderr: str


def last_words(folder: Path, worker: str) -> LastWords:
    """Of a worker that died while an item was on trial."""
    trace = _read(folder / f"{worker}.trace")
    verdict = Verdict.TIMED_OUT if trace.startswith(_TIMEOUT) else Verdict.CRASHED
    stack = "\n".join(line for line in trace.splitlines() if not _OURS.search(line)).strip()
    printed = _read(folder / f"{worker}.said") + _read(folder / f"{worker}.stderr")
    return LastWords(verdict, _read(folder / f"{worker}.crumb"), portable(stack), _ends(printed))


def _ends(text: str) -> str:
    text = portable(text)
    return text if len(text) <= 2 * STDERR_END else f"{text[:STDERR_END]}\n…\n{text[-STDERR_END:]}"


def _read(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def end_workers(folder: Path) -> None:
    """After an interruption: workers may be deep in foreign code that hears no signal but this one."""
    for path in sorted(folder.glob("*.pid")):
        with suppress(ProcessLookupError):
            os.kill(int(_read(path)), signal.SIGKILL)


NAME = "attnspec-guard"


class Guard:
    """A pytest plugin. `deadline` is in seconds, for each item."""

    def __init__(self, folder: Path, worker: str, deadline: float) -> None:
        self._deadline = deadline
        self._crumb = _opened(folder, worker, "crumb")
        self._trace = _opened(folder, worker, "trace")
        self._stderr = _opened(folder, worker, "stderr")
        (folder / f"{worker}.pid").write_text(str(os.getpid()), encoding="ascii")
        # Ctrl-C reaches the whole process group; the controller alone answers it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        faulthandler.enable(self._trace)
        os.dup2(self._stderr.fileno(), 2)
        keep_in(folder / f"{worker}.said")

    @classmethod
    def of(cls, config: pytest.Config) -> Guard:
        """The guard of this worker, which from now on imports from where the controller does.

        (xdist hands workers the path as it was when xdist was imported.)
        """
        sys.path[:] = json.loads(str(config.getoption("attnspec_path")))
        folder = Path(str(config.getoption("attnspec_traces")))
        worker: str = config.workerinput["workerid"]  # type: ignore[attr-defined]  # xdist adds it
        return cls(folder, worker, plan_of(config).deadline)

    def drop_crumb(self, recipe: str) -> None:
        """Note the case on trial: two system calls, no flush to disk, since a dead process loses no written page."""
        self._crumb.seek(0)
        self._crumb.truncate()
        self._crumb.write(recipe.encode())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Hold the item to its deadline, from a thread that needs no interpreter lock."""
        self.drop_crumb("")
        for file in (self._trace, self._stderr):
            file.truncate(0)
        faulthandler.dump_traceback_later(self._deadline, exit=True, file=self._trace)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _opened(folder: Path, worker: str, suffix: str) -> BinaryIO:
    # appending, so that a file truncated behind the back of whoever prints into it has no hole
    return (folder / f"{worker}.{suffix}").open("ab", buffering=0)
