"""What a run is asked to do: its plan, items and jobs, as plain data that JSON can hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from attnspec.core.effort import EFFORTS
from attnspec.core.errors import UsageError, quote_value
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.surroundings import Surroundings

PUT_ONCE = "it is tested at {} only; to test it at all dtypes, name them or use effort default"
"""Why a glance does not put a clause that does not depend on the dtype at a further one."""

NOT_AT_FLOAT64 = "it is not tested at float64, in which models do not compute; to test it there, name the dtype or " \
                 "use effort default"
"""Why effort quick does not put a clause at float64."""

GRADIENTS_ONCE = "gradients of a framework are tested at {} only; --profile +gradients tests them at all dtypes"
"""Why a run that does not name gradients puts no clause on them at a further dtype."""

HANDED = "attnspec_handed"
"""A module in memory only, for functions handed to `gate` that no import would find again."""

ADDED = "+"
"""The first letter of a profile that is tried in addition to all others."""

FAULT = "fault/"
SOUND = "sound/"
"""The beginning of the ids of attnspec's own subjects: faults, and differently right ones."""


def is_fault(target: str) -> bool:
    """Whether a target names a fault."""
    return target.startswith(FAULT)


def is_own(target: str) -> bool:
    """Whether a target names a fault or a sound formulation."""
    return target.startswith((FAULT, SOUND))


def is_left_out(reason: str) -> bool:
    """Whether a clause does not apply because of a run's plan, and not because of the subject."""
    return reason == NOT_AT_FLOAT64 or reason.startswith(tuple(
        text.partition("{}")[0] for text in (PUT_ONCE, GRADIENTS_ONCE)))


@dataclass(frozen=True, slots=True)
class Plan:
    """Which subjects, which clauses, which dtypes, how hard.

    targets: registered ids (`torch/sdpa`), `package.module:function`, or
    `path/to/file.py:function`.
    clauses: ids and patterns of ids (`causal.*`); empty means all (of the profiles, if any are
    named).
    profiles: names of profiles; one behind a plus sign is tried in full besides the others (see
    `narrowing`).
    dtypes: empty means all that a subject supports.
    implementations: further folders of implementations.
    deadline: seconds an item may take before it is TIMED_OUT.
    spec: a folder of clauses instead of those shipped.
    spec_add: files of own clauses, or folders of such files, to be judged beside them; as they
    were typed, so that a command which is printed can be typed again.
    baseline: a file of failures that are known and stop nobody; empty means none.
    python: the interpreter under which subjects live; empty means this one.
    host: a command that starts Python elsewhere (a container, another machine).
    device: where their arrays are placed.
    memory: resident bytes that a subject may take; 0 sets no limit.
    in_process: the targets that are handed over as objects, which stay here.
    must_take: a contract (see `spec/clause.py`); refusing any of it is a failure.
    variants: those that attnspec makes itself (see `core/forms.py`).
    diagnosed: how many failures of `must` clauses are explained at a glance, for each subject.
    sizes: such as `B4 H32 T2048 D128`, that are tried whatever the effort (see `core/sizes.py`).
    more: what a source of jobs beyond the engine's trials needs to know, by name.
    """

    targets: tuple[str, ...]
    clauses: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = ()
    effort: Effort = Effort.DEFAULT
    seed: int = 0
    strict: bool = False
    lift: str = ""
    implementations: tuple[str, ...] = ()
    spec: str = ""
    deadline: float = 300.0
    baseline: str = ""
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spec_add: tuple[str, ...] = ()
    python: str = ""
    host: str = ""
    device: str = ""
    memory: int = 0
    in_process: tuple[str, ...] = ()
    must_take: str = ""
    sizes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    diagnosed: int = 0

    @property
    def narrowing(self) -> frozenset[str]:
        """The profiles that a run is narrowed to; `+gradients` alone narrows nothing."""
        if all(name.startswith(ADDED) for name in self.profiles):
            return frozenset()
        return self.asked_for

    @property
    def asked_for(self) -> frozenset[str]:
        """The profiles that are named, whether they narrow the run or add to it."""
        return frozenset(name.removeprefix(ADDED) for name in self.profiles)

    @property
    def sample(self) -> int:
        """How many cases stand for all at a further dtype; 0: all, as where dtypes are named."""
        return 0 if self.dtypes else EFFORTS[self.effort].sample

    def surroundings(self, environment: Mapping[str, str]) -> Surroundings:
        """The surroundings in which the plan's subjects live, each with these variables."""
        command, option = tuple[str, ...](), ""
        if self.host:
            command, option = words_of_command(self.host), "--host"
        elif self.python:
            command, option = (self.python,), "--python"
        return Surroundings(command, is_here=not self.host, environment=environment,
                            device=self.device, deadline=self.deadline, memory=self.memory,
                            option=option)


def words_of_command(host: str) -> tuple[str, ...]:
    """The words of a command that is typed as one text.

    Raises UsageError where a shell would not take it, either.
    """
    try:
        words = tuple(shlex.split(host))
    except ValueError as problem:
        reason = str(problem)
        raise UsageError(f"--host {quote_value(host)} is no command: {reason[0].lower()}"
                         f"{reason[1:]}. Close what is opened.") from None
    if not words:
        raise UsageError("--host names no command.")
    return words


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One thing on trial: subject x clause x dtype."""

    target: str
    clause: str
    dtype: str

    @property
    def part(self) -> str:
        """What of the subject is on trial."""
        return self.clause

    @property
    def id(self) -> str:
        """The item's name in pytest's ids and in a record."""
        return f"{self.target}-{self.clause}-{self.dtype}"


class Job(Protocol):
    """One thing to do in a worker. Jobs are hashable; `id` is unique in a run.

    target: the subject.  part: what of it is on trial (a clause, a seed, a block of cases).
    """

    @property
    def id(self) -> str:
        """The job's name in pytest's ids and in messages."""

    @property
    def target(self) -> str:
        """The id of the subject."""

    @property
    def part(self) -> str:
        """What tells the job from the others of its subject and dtype."""

    @property
    def dtype(self) -> str:
        """The name of the number format."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job has no result of its own: the worker died at it, or it was NOT_RUN.

    recipe: the case on trial when the worker died.  traceback, stderr: what the worker left
    behind.
    """

    reason: str
    verdict: Verdict = Verdict.NOT_RUN
    recipe: str = ""
    traceback: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The result of a run: how often each thing happened, and the exit code."""

    exit_code: int
    counts: Mapping[str, int] = field(default_factory=dict)


K = TypeVar("K")

MOST_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Which of how many, counted from 1. As a text `2/5`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def read_shard(text: str) -> Shard:
    """The shard of a text. Raises UsageError for what is none."""
    match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if not match:
        raise UsageError(f"{text!r} is no shard. The second of five is 2/5.")
    shard = Shard(int(match[1]), int(match[2]))
    if not 1 <= shard.index <= shard.count <= MOST_SHARDS:
        raise UsageError(f"there is no shard {text}. Shards are counted from 1, as 2/5, "
                         "and there are at most "
                         f"{MOST_SHARDS:,}.")
    return shard


def deal_shards(costs: Mapping[K, float], count: int) -> tuple[tuple[K, ...], ...]:
    """Deals jobs to so many shards: the dearest first, each to the shard with the least to do.

    Of equal costs the first in the mapping's order comes first, so that every shard computes the
    same.
    """
    shares: tuple[list[K], ...] = tuple([] for _ in range(count))
    totals = [0.0] * count
    for key in sorted(costs, key=lambda key: -costs[key]):
        least = totals.index(min(totals))
        shares[least].append(key)
        totals[least] += costs[key]
    return tuple(map(tuple, shares))
