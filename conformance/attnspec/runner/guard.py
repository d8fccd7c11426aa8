"""Inside a worker of the `attnspec` command: leave what explains a death, and die in time.

A worker is sacrificial. Small files survive it: `.crumb` (the case on trial), `.trace` (where every thread stood when
the process died), and `.stderr` (what was printed during the
item outside its calls). The controller, which imports no pytest, reads them (traces.py).
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

import pytest

from attnspec.runner.jobs import plan_of

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
