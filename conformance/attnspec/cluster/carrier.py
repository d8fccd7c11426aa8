"""Has the jobs of a run done by the workers of a cluster. Dask deals them, and repeats what a worker died at."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnspec.cluster.connection import Connection, SchedulerLostError
from attnspec.cluster.messages import Task, TaskResult, WorkerQuestion
from attnspec.cluster.workforce import ClusterWorkers, resources_for
from attnspec.core.plan import Job, Plan
from attnspec.record.codec import from_line
from attnspec.record.sharded import Group
from attnspec.runner.listener import Listener
from attnspec.runner.shards import groups_of

AHEAD = 2
"""Tasks in Dask's hands for each that its workers take at once. A worker that dies is held against all it was dealt."""

LOOK = 1.0
"""Seconds between two looks at who the workers are."""

PAUSE = 0.05
"""Seconds between two looks at what is done."""

PATIENCE = 120.0
"""Seconds without a worker that can judge what is left, after which it is given up. Dask's nannies take a few to
start another worker in the place of one that died."""

WORTH = 30.0
"""Seconds that a task should take: its process needs three to start. Pairs that take less are dealt several at once."""

Jobs = Sequence[Job]
Groups = Mapping[Group, Jobs]


@dataclass(slots=True)
class ClusterCarrier:
    """Carries out jobs on a cluster. say: tells the user, in a line, what no record has."""

    connection: Connection
    workforce: ClusterWorkers
    tell_user: Callable[[str], None]

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of all workers."""
        return self.workforce.environment

    def carry_out(self, listener: Listener, plan: Plan, source: str, jobs: Sequence[Job]) -> None:
        """Has every job done. What is done is told at once; an interruption leaves the rest undone."""
        question = WorkerQuestion(plan, self.workforce.question.folder)
        workforce = replace(self.workforce, question=question, answers={}, unfit_workers=set())
        dealing = _TaskDealing(self.connection, workforce, listener, self.tell_user, plan, source)
        try:
            workforce.begin()
            dealing.deal(groups_of(jobs))
        except KeyboardInterrupt:
            listener.interrupted = True
            dealing.leave()
        except SchedulerLostError as lost:
            listener.give_up(jobs, str(lost))


@dataclass(frozen=True, slots=True)
class _DealtTask:
    """What Dask has: the groups of a task, and the workers that may get it."""

    groups: Groups
    workers: tuple[str, ...]


@dataclass(slots=True)
class _TaskDealing:
    """The tasks of a run: those that wait, and those that Dask has.

    run: by which the workers know it.
    """

    connection: Connection
    workforce: ClusterWorkers
    listener: Listener
    tell_user: Callable[[str], None]
    plan: Plan
    source: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    waiting_groups: dict[Group, Jobs] = field(default_factory=dict)
    dealt_parts: dict[Any, _DealtTask] = field(default_factory=dict)
    _submitted: int = 0
    _judged_count: int = 0
    _seconds: float = 0.0
    _looked: float = 0.0
    _stuck_since: float = 0.0

    def deal(self, groups: Groups) -> None:
        """Have them all done, but for what no worker can judge from the beginning."""
        for group, jobs in groups.items():
            if reason := self.workforce.why_not(group[0]):
                self.listener.give_up(jobs, reason)
            else:
                self.waiting_groups[group] = jobs
        while self.waiting_groups or self.dealt_parts:
            self._look()
            self._hand_out()
            if not self._take():
                time.sleep(PAUSE)

    def leave(self) -> None:
        """Withdraw the rest."""
        self.connection.leave(self.run, list(self.dealt_parts))

    def _look(self) -> None:
        """Once a second, who the workers are; what was dealt to workers that have all gone waits again."""
        if time.monotonic() - self._looked < LOOK:
            return
        for unfit in self.workforce.refresh():
            self.tell_user(f"{unfit} It is given nothing to do.")
        self._looked = time.monotonic()
        for future, dealt in list(self.dealt_parts.items()):
            if not future.done() and not any(address in self.workforce.answers for address in dealt.workers):
                future.cancel()
                del self.dealt_parts[future]
                self.waiting_groups.update(dealt.groups)
        self._mind_the_stuck()

    def _mind_the_stuck(self) -> None:
        """Say that nobody can judge what is left; after a while, give it up."""
        stuck = [group for group in self.waiting_groups if not self.workforce.able(group[0])]
        if not stuck or self.dealt_parts:
            self._stuck_since = 0.0
        elif not self._stuck_since:
            self._stuck_since = time.monotonic()
            self.tell_user(f"no worker is left that can judge {stuck[0][0]}. "
                           f"The run waits for one, {PATIENCE:.0f} seconds.")
        elif time.monotonic() - self._stuck_since > PATIENCE:
            for group in stuck:
                self.listener.give_up(self.waiting_groups.pop(group),
                                      "no worker of the cluster was left that could judge it")

    def _hand_out(self) -> None:
        """To each set of workers a little more than it takes at once."""
        held = Counter(dealt.workers for dealt in self.dealt_parts.values())
        for workers, groups in self._by_workers().items():
            free = AHEAD * self.workforce.slots(workers) - held[workers]
            size = self._size(len(groups), self.workforce.slots(workers))
            for batch in list(batch_groups(groups, size))[:max(0, free)]:
                self._submit({group: self.waiting_groups.pop(group) for group in batch}, workers)

    def _by_workers(self) -> Mapping[tuple[str, ...], Sequence[Group]]:
        """What waits, by the workers that can judge it."""
        found: dict[tuple[str, ...], list[Group]] = {}
        for group in self.waiting_groups:
            if workers := self.workforce.able(group[0]):
                found.setdefault(workers, []).append(group)
        return found

    def _size(self, waiting: int, slots: int) -> int:
        """How many groups a task gets: as many as make it worth a process, and never so many that a worker idles."""
        worth = int(WORTH * self._judged_count / self._seconds) if self._seconds else 1
        return max(1, min(worth, math.ceil(waiting / (AHEAD * max(1, slots)))))

    def _submit(self, groups: Groups, workers: tuple[str, ...]) -> None:
        self._submitted += 1
        key = f"attnspec-{self.run}-{self._submitted}"
        targets = tuple(dict.fromkeys(target for target, _ in groups))
        # names in a baseline are looked up among all targets
        plan = self.plan if self.plan.baseline else replace(self.plan, targets=targets)
        task = Task(self.run, plan, self.source, tuple(groups), self.workforce.question.folder)
        future = self.connection.submit(task, key, list(workers), resources_for(self.plan.device))
        self.dealt_parts[future] = _DealtTask(groups, workers)

    def _take(self) -> bool:
        """Tell what is done; whether anything was."""
        done = [future for future in self.dealt_parts if future.done()]
        for future in done:
            self._tell_defects(self.connection.part(future), self.dealt_parts.pop(future).groups)
        return bool(done)

    def _tell_defects(self, part: TaskResult, groups: Groups) -> None:
        """What is wrong with one part is no fault of the others."""
        self._judged_count, self._seconds = self._judged_count + len(groups), self._seconds + part.seconds
        jobs = [job for of_one in groups.values() for job in of_one]
        self.listener.receive(map(from_line, part.lines))
        self.listener.give_up(jobs, part.wrong or "its part of the run ended before its turn came", part.defects)


def batch_groups(groups: Sequence[Group], size: int) -> Iterator[Sequence[Group]]:
    """Batches neighbouring groups together: they often share a subject."""
    for first in range(0, len(groups), size):
        yield groups[first:first + size]
