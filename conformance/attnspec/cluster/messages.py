"""Plain data of a run on a cluster: its address, and what a client and its workers tell each other.

Messages pickle under any Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.core.errors import UsageError
from attnspec.core.plan import Plan
from attnspec.record.write import Group

MOST_WORKERS = 1024
FORMS = "Write tcp://HOST:PORT for a scheduler that runs, or local:4 to start four workers here."


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A scheduler's address, or, where that is empty, how many workers are to be started on this machine."""

    scheduler: str = ""
    workers: int = 0

    def __str__(self) -> str:
        return self.scheduler or f"local:{self.workers}"


def read_address(text: str) -> ClusterAddress:
    """The address of a text. Raises UsageError for what is none."""
    if found := re.fullmatch(r"local:(\d{1,5})", text):
        workers = int(found[1])
        if not 1 <= workers <= MOST_WORKERS:
            raise UsageError(f"{text} starts {workers:,} workers. Start at least 1 and at most {MOST_WORKERS:,}.")
        return ClusterAddress(workers=workers)
    port = re.fullmatch(r"(?:tcp|tls)://(?:[^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})", text)
    if not port or not 1 <= int(port[1]) <= 65_535:
        raise UsageError(f"{text!r} is no address of a cluster. {FORMS}")
    return ClusterAddress(scheduler=text)


@dataclass(frozen=True, slots=True)
class WorkerQuestion:
    """Asks a worker what it can judge. plan: of a run; one without targets asks for all registered subjects.

    folder: the working directory of the client.
    """

    plan: Plan
    folder: str


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker says it can judge. version: of attnspec.  digest: of the spec that the plan names.

    missing: of each target, why it cannot be judged there; empty if it can.  releases: the version of its library.
    absent: what the plan names and is not there.  wrong: why it cannot tell.
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
    """A part of a run that one worker carries out. run: by which its processes are known."""

    run: str
    plan: Plan
    source: str
    groups: tuple[Group, ...]
    folder: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came of a task. lines: those of its record.  defects: failures of attnspec itself.  wrong: why it has no
    result.  seconds: how long it took, without the start of its process.
    """

    lines: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    wrong: str = ""
    seconds: float = 0.0
