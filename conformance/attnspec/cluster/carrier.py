"""Carries out a run on a cluster of Dask.

It asks the workers which subjects they can judge, submits groups of jobs to them, and takes the
records that come back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from itertools import chain
from types import ModuleType
from typing import Any

import attnspec
from attnspec.cluster import worker
from attnspec.cluster.worker import ClusterAddress, Task, TaskResult, WorkerAnswer, WorkerQuestion
from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.plan import Job, Plan
from attnspec.core.surroundings import kind_of
from attnspec.record.codec import decode, encode, from_line
from attnspec.record.write import Group
from attnspec.runner.jobs import groups_of
from attnspec.runner.listener import Listener

LOST_CONNECTION = "the connection to the scheduler was lost."
ANSWER_SECONDS = 10.0
"""Seconds that a scheduler may take to answer."""

START_SECONDS = 120.0
"""Seconds that workers started here may take until they are ready."""

EXTRA_COMMAND = "pip install 'attnspec[cluster]'"


class SchedulerLostError(AttnspecError):
    """The scheduler does not answer any more during a run."""


@contextlib.contextmanager
def connect_cluster(address: ClusterAddress,
                    resources: Mapping[str, float]) -> Iterator[Connection]:
    """Connects to the scheduler at the address, or to workers that it starts and ends here.

    resources: those that workers started here declare. Raises UsageError where there is no
    scheduler, or `distributed` is not installed.
    """
    distributed = _import_distributed()
    with contextlib.ExitStack() as stack:
        scheduler: Any = address.scheduler or stack.enter_context(
            _start_local_cluster(distributed, address, resources))
        try:
            client = distributed.Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as problem:
            raise UsageError(
                f"no scheduler answers at {address}: {_first_line(problem)} Start one with "
                "`dask scheduler`, and name the address that it prints.") from None
        stack.enter_context(client)
        yield Connection(client, distributed)


def _import_distributed() -> ModuleType:
    try:
        import distributed  # noqa: PLC0415  (an extra, and weight)
    except ImportError as problem:
        raise UsageError(
            f"--cluster needs Dask's distributed scheduler ({problem}). Install it: {EXTRA_COMMAND}") from None
    for name in [name for name in logging.root.manager.loggerDict
                 if name.partition(".")[0] == "distributed"]:
        # what a death costs is told of the items
        logging.getLogger(name).setLevel(logging.CRITICAL)
    module: ModuleType = distributed
    return module


def _start_local_cluster(distributed: ModuleType, address: ClusterAddress, resources: Mapping[str, float]) -> Any:  # noqa: ANN401  (no types there)
    """Starts workers of one thread each, since each part of a run is a process anyway."""
    with _deaf_to_interrupts():
        return distributed.LocalCluster(
            n_workers=address.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0",
            host="127.0.0.1", silence_logs=logging.CRITICAL, resources=dict(resources) or None)


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Lets processes that start inside ignore Ctrl-C, because the client ends them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _first_line(problem: BaseException) -> str:
    line = str(problem).strip().partition("\n")[0].rstrip(".")
    return f"{line or type(problem).__name__}."


@dataclass(slots=True)
class Connection:
    """The part of Dask's client that a run needs."""

    client: Any
    distributed_module: ModuleType

    def workers(self) -> Mapping[str, int]:
        """Returns the number of threads of each worker. Raises SchedulerLostError."""
        try:
            threads: Mapping[str, int] = self.client.nthreads()
        except (OSError, TimeoutError, CancelledError):
            raise SchedulerLostError(LOST_CONNECTION) from None
        return threads

    def resources(self) -> Mapping[str, Mapping[str, float]]:
        """Returns the resources that each worker declares."""
        # some releases tell of five workers unless asked
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: each.get("resources", {}) for address, each in workers.items()}

    def ask(self, question: WorkerQuestion,
            workers: list[str]) -> Mapping[str, WorkerAnswer | str]:
        """Asks these workers, and returns answers, or why a worker cannot answer. A worker that
        has died meanwhile is left out.
        """
        answers = dict[str, WorkerAnswer | str]()
        for address in workers:
            answer = self.ask_worker(worker.answer_question, question, address)
            if answer is not None:
                answers[address] = answer
        return answers

    def ask_worker(self, function: Callable[[WorkerQuestion], WorkerAnswer],
                   question: WorkerQuestion, address: str) -> WorkerAnswer | str | None:
        """Asks one worker: if several are asked at once, the first error hides the rest."""
        try:
            answer = self.client.run(function, question, workers=[address],
                                     on_error="return").get(address)
        except OSError:  # it is gone; so says the next list of workers
            return None
        except Exception as problem:
            return _first_line(problem)
        is_gone = answer is None or isinstance(answer, OSError)
        if is_gone:
            return None
        if isinstance(answer, WorkerAnswer):
            return answer
        return _first_line(answer)

    def submit(self, task: Task, key: str, workers: list[str], resources: Mapping[str, float]) -> Any:  # noqa: ANN401
        """Submits the task to one of these workers, and returns its future."""
        return self.client.submit(_judge_there(), json.dumps(encode(task)), key=key,
                                  workers=workers, allow_other_workers=False, pure=False,
                                  resources=dict(resources) or None)

    def result_of(self, future: Any) -> TaskResult:  # noqa: ANN401
        """Returns the result of a task, or a result that says why there is none."""
        try:
            return decode(TaskResult, json.loads(future.result()))
        except self.distributed_module.KilledWorker:
            return TaskResult(wrong="workers died at it again and again, and Dask gave it up.")
        except (CancelledError, self.distributed_module.client.FutureCancelledError):
            return TaskResult(wrong=LOST_CONNECTION)
        except Exception as problem:
            return TaskResult(
                wrong=f"its worker failed: {type(problem).__name__}: {_first_line(problem)}")

    def withdraw_run(self, run: str, futures: list[Any]) -> None:
        """Cancels the tasks that are not done, and ends those that are being judged."""
        self.client.cancel(futures, force=True)
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to end
            self.client.run(worker.stop_run, run, on_error="ignore")


def _judge_there() -> Callable[[str], str]:
    """Makes the function that a worker calls. Dask sends a function within a function as code, not
    as a name to import. The scheduler unpacks it too, and need not have attnspec.
    """
    def judge(text: str) -> str:
        from attnspec.cluster.worker import judge_text  # noqa: PLC0415  (there)

        return judge_text(text)

    return judge


def without_attnspec(address: str, reason: str) -> UsageError:
    """Makes the error for a worker that does not understand the question."""
    return UsageError(f"the worker {address} cannot judge ({reason.rstrip('.')}). Install "
                      f"attnspec {attnspec.__version__} in its environment.")


_RESOURCE_NAMES: Mapping[str, str] = {"cuda": "GPU", "mps": "GPU", "xpu": "GPU"}
"""What Dask's documentation calls a device's resource; other devices are called as they are."""


def resources_for(device: str) -> Mapping[str, float]:
    """Returns the resource that a worker must declare to judge on this device; none for a CPU."""
    kind = kind_of(device)
    if kind == "cpu":
        return {}
    return {_RESOURCE_NAMES.get(kind, kind.upper()): 1}


@dataclass(slots=True)
class ClusterWorkers:
    """The workers of a run, and their answers.

    digest: of the spec by which all must judge.  unfit_workers: those that have another attnspec,
    another spec, another release of a library, or lack a file that the plan names.
    """

    connection: Connection
    question: WorkerQuestion
    digest: str
    answers: dict[str, WorkerAnswer] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    unfit_workers: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Asks all workers. Raises UsageError for a worker that is unfit, where there is none, and
        where none has the device.
        """
        for unfit in self.refresh():
            raise unfit
        if not self.answers:
            raise UsageError("the scheduler has no workers. Start some: dask worker ADDRESS.")
        device = self.question.plan.device
        for name in resources_for(device):
            if not any(name in declared for declared in self.connection.resources().values()):
                raise UsageError(f"no worker declares a {name}, which --device {device} needs. Start those that have "
                                 f"one with: dask worker ADDRESS --resources '{name}=1'.")

    def refresh(self) -> Sequence[UsageError]:
        """Asks new workers, forgets those that have gone, and returns the newly unfit."""
        self.threads = self.connection.workers()
        self.answers = {address: answer for address, answer in self.answers.items()
                        if address in self.threads}
        known_workers = self.answers.keys() | self.unfit_workers
        new_workers = [address for address in self.threads if address not in known_workers]
        unfit = []
        for address, answer in self.connection.ask(self.question, new_workers).items():
            try:
                self.answers[address] = self._check_answer(address, answer)
            except UsageError as problem:
                self.unfit_workers.add(address)
                unfit.append(problem)
        return unfit

    def _check_answer(self, address: str, answer: WorkerAnswer | str) -> WorkerAnswer:
        if isinstance(answer, str):
            raise without_attnspec(address, answer)
        if answer.version != attnspec.__version__:
            raise without_attnspec(address, f"it has attnspec {answer.version}")
        if answer.absent:
            raise UsageError(f"the worker {address} has no {answer.absent[0]}. Files and folders that the command "
                             "names must lie at the same place on every worker's machine.")
        if answer.wrong:
            raise UsageError(f"the worker {address} cannot judge: {answer.wrong}")
        if answer.digest != self.digest:
            raise UsageError(
                f"the worker {address} has the spec {answer.digest[:12]}, and here it is "
                f"{self.digest[:12]}. Install the same attnspec in both places.")
        self._check_releases(address, answer)
        return answer

    def _check_releases(self, address: str, answer: WorkerAnswer) -> None:
        """Raises UsageError where two workers have different releases of a library. They might
        judge differently, and chance decides which of them judges.
        """
        for target, release in answer.releases.items():
            if answer.missing[target]:
                continue
            for other in self.able_workers(target):
                if (known := self.answers[other].releases[target]) != release:
                    raise UsageError(
                        f"the worker {address} has release {release or 'unknown'} of the library of {target}, and "
                        f"{other} has {known or 'unknown'}. Install one release on all workers.")

    def able_workers(self, target: str) -> tuple[str, ...]:
        """Returns the workers that can judge a target."""
        return tuple(address for address, answer in self.answers.items()
                     if not answer.missing.get(target, ""))

    def why_missing(self) -> Mapping[str, str]:
        """Says for each target why no worker can judge it; empty if one can."""
        targets = chain.from_iterable(answer.missing for answer in self.answers.values())
        return {target: self.why_not(target) for target in dict.fromkeys(targets)}

    def why_not(self, target: str) -> str:
        """Says why no worker can judge a target; empty if one can."""
        reasons = [answer.missing.get(target, "") for answer in self.answers.values()]
        if reasons and all(reasons):
            return reasons[0]
        return ""

    def count_slots(self, workers: Iterable[str]) -> int:
        """Counts the tasks that these workers take at once."""
        return sum(self.threads.get(address, 0) for address in workers)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a header says of all workers; all values where they differ. The cards of subjects
        tell the workers apart.
        """
        values: dict[str, dict[str, None]] = {}
        for answer in self.answers.values():
            for name, value in answer.environment.items():
                values.setdefault(name, {})[value] = None
        joint = {name: ", ".join(each) for name, each in values.items()}
        return {**joint, "workers": str(self.count_slots(self.answers))}


TASKS_AHEAD = 2
"""Tasks given to Dask for each that workers can run; few, because a worker's death counts against
all it has.
"""

LOOK_SECONDS = 1.0
"""Seconds between two looks at who the workers are."""

PAUSE_SECONDS = 0.05
"""Seconds between two looks at what is done."""

STUCK_SECONDS = 120.0
"""Seconds without a worker that can judge what is left, after which it is given up. Dask's nannies
take a few to start another worker in the place of one that died.
"""

TASK_SECONDS = 30.0
"""Seconds that a task should take: its process starts in three. Short pairs are batched."""

Jobs = Sequence[Job]
Groups = Mapping[Group, Jobs]


@dataclass(slots=True)
class ClusterCarrier:
    """Carries out jobs on a cluster. tell_user: prints a line that no record has."""

    connection: Connection
    workforce: ClusterWorkers
    tell_user: Callable[[str], None]

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of all workers."""
        return self.workforce.environment

    def carry_out(self, listener: Listener, plan: Plan, source: str, jobs: Sequence[Job]) -> None:
        """Carries out every job, and passes on its result at once. After an interruption the other
        jobs are left.
        """
        question = WorkerQuestion(plan, self.workforce.question.folder)
        workforce = replace(self.workforce, question=question, answers={}, unfit_workers=set())
        dealing = _TaskDealing(self.connection, workforce, listener, self.tell_user, plan, source)
        try:
            workforce.begin()
            dealing.deal(groups_of(jobs))
        except KeyboardInterrupt:
            listener.is_interrupted = True
            dealing.leave()
        except SchedulerLostError as lost:
            listener.give_up(jobs, str(lost))


@dataclass(frozen=True, slots=True)
class _DealtTask:
    """A task that Dask has: its groups, and the workers that may get it."""

    groups: Groups
    workers: tuple[str, ...]


@dataclass(slots=True)
class _TaskDealing:
    """Deals out a run's tasks. run: the name of the run, by which the workers find it."""

    connection: Connection
    workforce: ClusterWorkers
    listener: Listener
    tell_user: Callable[[str], None]
    plan: Plan
    source: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    waiting_groups: dict[Group, Jobs] = field(default_factory=dict)
    dealt_parts: dict[Any, _DealtTask] = field(default_factory=dict)
    _submitted_count: int = 0
    _judged_count: int = 0
    _seconds: float = 0.0
    _looked_at: float = 0.0
    _stuck_since: float = 0.0

    def deal(self, groups: Groups) -> None:
        """Carries out all groups, except those that no worker can judge at the start."""
        for group, jobs in groups.items():
            if reason := self.workforce.why_not(group[0]):
                self.listener.give_up(jobs, reason)
            else:
                self.waiting_groups[group] = jobs
        while self.waiting_groups or self.dealt_parts:
            self._look_at_workers()
            self._hand_out()
            if not self._take_results():
                time.sleep(PAUSE_SECONDS)

    def leave(self) -> None:
        """Withdraws the tasks that are left."""
        self.connection.withdraw_run(self.run, list(self.dealt_parts))

    def _look_at_workers(self) -> None:
        """Asks once a second who works; a task that lost all its workers waits again."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        for unfit in self.workforce.refresh():
            self.tell_user(f"{unfit} It is given nothing to do.")
        self._looked_at = time.monotonic()
        for future, dealt in list(self.dealt_parts.items()):
            if not future.done() and not any(address in self.workforce.answers
                                             for address in dealt.workers):
                future.cancel()
                del self.dealt_parts[future]
                self.waiting_groups.update(dealt.groups)
        self._give_up_stuck_groups()

    def _give_up_stuck_groups(self) -> None:
        """Says that no worker can judge what is left and, after a while, gives it up."""
        stuck = [group for group in self.waiting_groups
                 if not self.workforce.able_workers(group[0])]
        if not stuck or self.dealt_parts:
            self._stuck_since = 0.0
        elif not self._stuck_since:
            self._stuck_since = time.monotonic()
            self.tell_user(f"no worker is left that can judge {stuck[0][0]}. "
                           f"The run waits for one, {STUCK_SECONDS:.0f} seconds.")
        elif time.monotonic() - self._stuck_since > STUCK_SECONDS:
            for group in stuck:
                self.listener.give_up(self.waiting_groups.pop(group),
                                      "no worker of the cluster was left that could judge it")

    def _hand_out(self) -> None:
        """Submits to each set of workers a few tasks more than it takes at once."""
        submitted = Counter(dealt.workers for dealt in self.dealt_parts.values())
        for workers, groups in self._by_workers().items():
            free = TASKS_AHEAD * self.workforce.count_slots(workers) - submitted[workers]
            size = self._groups_a_task(len(groups), self.workforce.count_slots(workers))
            for batch in list(batch_groups(groups, size))[:max(0, free)]:
                self._submit({group: self.waiting_groups.pop(group) for group in batch}, workers)

    def _by_workers(self) -> Mapping[tuple[str, ...], Sequence[Group]]:
        """Lists the groups that wait by the workers that can judge them."""
        groups: dict[tuple[str, ...], list[Group]] = {}
        for group in self.waiting_groups:
            if workers := self.workforce.able_workers(group[0]):
                groups.setdefault(workers, []).append(group)
        return groups

    def _groups_a_task(self, waiting: int, slots: int) -> int:
        """Computes how many groups make a task. A task should be worth the start of a process, and
        leave no worker idle.
        """
        worth = 1
        if self._seconds:
            worth = int(TASK_SECONDS * self._judged_count / self._seconds)
        return max(1, min(worth, math.ceil(waiting / (TASKS_AHEAD * max(1, slots)))))

    def _submit(self, groups: Groups, workers: tuple[str, ...]) -> None:
        self._submitted_count += 1
        key = f"attnspec-{self.run}-{self._submitted_count}"
        targets = tuple(dict.fromkeys(target for target, _ in groups))
        # names in a baseline are looked up among all targets
        plan = self.plan if self.plan.baseline else replace(self.plan, targets=targets)
        task = Task(self.run, plan, self.source, tuple(groups), self.workforce.question.folder)
        future = self.connection.submit(task, key, list(workers), resources_for(self.plan.device))
        self.dealt_parts[future] = _DealtTask(groups, workers)

    def _take_results(self) -> bool:
        """Passes on the results of tasks that are done, and returns whether there were any."""
        done = [future for future in self.dealt_parts if future.done()]
        for future in done:
            self._take_result_of_task(self.connection.result_of(future),
                                      self.dealt_parts.pop(future).groups)
        return bool(done)

    def _take_result_of_task(self, part: TaskResult, groups: Groups) -> None:
        self._judged_count += len(groups)
        self._seconds += part.seconds
        jobs = [job for of_one in groups.values() for job in of_one]
        self.listener.receive_events(map(from_line, part.lines))
        self.listener.give_up(jobs, part.wrong or "its part of the run ended before its turn came",
                              part.defects)


def batch_groups(groups: Sequence[Group], size: int) -> Iterator[Sequence[Group]]:
    """Batches neighbouring groups, which often share a subject."""
    for first in range(0, len(groups), size):
        yield groups[first:first + size]
