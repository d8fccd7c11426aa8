"""What a client and its workers tell each other, as plain data that pickles under any Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.core.plan import Plan
from attnspec.record.sharded import Group


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
