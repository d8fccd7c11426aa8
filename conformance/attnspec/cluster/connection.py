"""The connection to a cluster: the only module that imports Dask's `distributed`, and only once a cluster is named."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import attnspec
from attnspec.cluster import worker
from attnspec.cluster.messages import ClusterAddress, Task, TaskResult, WorkerAnswer, WorkerQuestion
from attnspec.core.errors import AttnspecError, UsageError
from attnspec.record.codec import decode, encode

LOST = "the connection to the scheduler was lost."
WAITING = 10.0
"""Seconds that a scheduler may take to answer."""

STARTING = 120.0
"""Seconds that workers may take which are started here."""

EXTRA = "pip install 'attnspec[cluster]'"


class SchedulerLostError(AttnspecError):
    """The scheduler is gone in the middle of a run."""


@contextlib.contextmanager
def connect_cluster(address: ClusterAddress, resources: Mapping[str, float]) -> Iterator[Connection]:
    """A connection to the scheduler at the address, or to workers that are started here and end with it.

    resources: what workers that are started here declare. Raises UsageError where there is no scheduler, or
    `distributed` is not installed.
    """
    distributed = _import_distributed()
    with contextlib.ExitStack() as stack:
        scheduler: Any = address.scheduler or stack.enter_context(_start_local_cluster(distributed, address, resources))
        try:
            client = distributed.Client(scheduler, timeout=WAITING, set_as_default=False)
        except (OSError, TimeoutError) as problem:
            raise UsageError(f"no scheduler answers at {address}: {_in_short(problem)} Start one with "
                             "`dask scheduler`, and name the address that it prints.") from None
        stack.enter_context(client)
        yield Connection(client, distributed)


def _import_distributed() -> ModuleType:
    try:
        import distributed  # noqa: PLC0415  (an extra, and weight)
    except ImportError as problem:
        raise UsageError(f"--cluster needs Dask's distributed scheduler ({problem}). Install it: {EXTRA}") from None
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what a death costs is told of the items
    found: ModuleType = distributed
    return found


def _start_local_cluster(distributed: ModuleType, address: ClusterAddress, resources: Mapping[str, float]) -> Any:  # noqa: ANN401  (no types there)
    """Workers here: processes of one thread each, since a part of a run is a process of its own anyway."""
    with _deaf_to_interrupts():
        return distributed.LocalCluster(
            n_workers=address.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1",
            silence_logs=logging.CRITICAL, resources=dict(resources) or None)


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that begin meanwhile do not hear Ctrl-C, which a terminal sends to all: the client ends them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_short(problem: BaseException) -> str:
    line = str(problem).strip().partition("\n")[0].rstrip(".")
    return f"{line or type(problem).__name__}."


@dataclass(slots=True)
class Connection:
    """What a run needs of Dask's client."""

    client: Any
    distributed_module: ModuleType

    def workers(self) -> Mapping[str, int]:
        """How many tasks each worker takes at once, by its address. Raises SchedulerLostError."""
        try:
            found: Mapping[str, int] = self.client.nthreads()
        except (OSError, TimeoutError, CancelledError):
            raise SchedulerLostError(LOST) from None
        return found

    def resources(self) -> Mapping[str, Mapping[str, float]]:
        """What each worker declares."""
        told = self.client.scheduler_info(n_workers=-1)["workers"]  # some releases tell of five workers unless asked
        return {address: each.get("resources", {}) for address, each in told.items()}

    def ask(self, question: WorkerQuestion, workers: list[str]) -> Mapping[str, WorkerAnswer | str]:
        """Asks these workers, and collects their answers; of one that cannot answer, why. One that has died meanwhile
        is left out.
        """
        told = {each: self.ask_worker(worker.answer_question, question, each) for each in workers}
        return {address: each for address, each in told.items() if each is not None}

    def ask_worker(self, function: Callable[[WorkerQuestion], WorkerAnswer], question: WorkerQuestion,
              address: str) -> WorkerAnswer | str | None:
        """Asks one worker, since of several the first that fails hides the others."""
        try:
            found = self.client.run(function, question, workers=[address], on_error="return").get(address)
        except OSError:  # it is gone; so says the next list of workers
            return None
        except Exception as problem:
            return _in_short(problem)
        gone = found is None or isinstance(found, OSError)
        return None if gone else found if isinstance(found, WorkerAnswer) else _in_short(found)

    def submit(self, task: Task, key: str, workers: list[str], resources: Mapping[str, float]) -> Any:  # noqa: ANN401
        """A future of the part, which one of these workers is to judge."""
        return self.client.submit(_judge_there(), json.dumps(encode(task)), key=key, workers=workers,
                                  allow_other_workers=False, pure=False, resources=dict(resources) or None)

    def part(self, future: Any) -> TaskResult:  # noqa: ANN401
        """What came of a part of the run, or why nothing did."""
        try:
            return decode(TaskResult, json.loads(future.result()))
        except self.distributed_module.KilledWorker:
            return TaskResult(wrong="workers died at it again and again, and Dask gave it up.")
        except (CancelledError, self.distributed_module.client.FutureCancelledError):
            return TaskResult(wrong=LOST)
        except Exception as problem:
            return TaskResult(wrong=f"its worker failed: {type(problem).__name__}: {_in_short(problem)}")

    def leave(self, run: str, futures: list[Any]) -> None:
        """Withdraw what is not done, and end what is at work."""
        self.client.cancel(futures, force=True)
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to end
            self.client.run(worker.stop_run, run, on_error="ignore")


def _judge_there() -> Callable[[str], str]:
    """What a worker calls. A function within a function is sent as its code, and not as a name to be imported: the
    scheduler unpacks it, too, and need not have attnspec.
    """
    def judge(text: str) -> str:
        from attnspec.cluster.worker import judge_text  # noqa: PLC0415  (there)

        return judge_text(text)

    return judge


def without_attnspec(address: str, told: str) -> UsageError:
    """The error of a worker that does not understand the question."""
    return UsageError(f"the worker {address} cannot judge ({told.rstrip('.')}). Install attnspec "
                      f"{attnspec.__version__} in its environment.")
