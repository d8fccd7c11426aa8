"""Who of a cluster can judge what: each worker was asked what it has, and all must judge by the same law."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import attnspec
from attnspec.cluster.connection import Connection, without_attnspec
from attnspec.cluster.messages import WorkerAnswer, WorkerQuestion
from attnspec.core.errors import UsageError
from attnspec.core.surroundings import kind_of

_RESOURCES: Mapping[str, str] = {"cuda": "GPU", "mps": "GPU", "xpu": "GPU"}
"""What Dask's documentation calls the resource that workers declare for a device; others are called as they are."""


def resources_for(device: str) -> Mapping[str, float]:
    """The resource that a worker must have declared to judge on this device; on a CPU none."""
    kind = kind_of(device)
    return {} if kind == "cpu" else {_RESOURCES.get(kind, kind.upper()): 1}


@dataclass(slots=True)
class ClusterWorkers:
    """The workers that were asked. digest: of the spec by which all must judge.  unfit: those that have another
    attnspec, another spec, another release of a library, or not what the plan names.
    """

    connection: Connection
    question: WorkerQuestion
    digest: str
    answers: dict[str, WorkerAnswer] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    unfit_workers: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Asks all workers there are. Raises UsageError for one that is not fit, where there is none, and where none
        has the device.
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
        """Ask who has come, and forget who has gone. What is wrong with those who are not fit, told once."""
        self.threads = self.connection.workers()
        self.answers = {address: told for address, told in self.answers.items() if address in self.threads}
        come = [address for address in self.threads if address not in self.answers
                and address not in self.unfit_workers]
        unfit = []
        for address, told in self.connection.ask(self.question, come).items():
            try:
                self.answers[address] = self._checked(address, told)
            except UsageError as problem:
                self.unfit_workers.add(address)
                unfit.append(problem)
        return unfit

    def _checked(self, address: str, told: WorkerAnswer | str) -> WorkerAnswer:
        if isinstance(told, str) or told.version != attnspec.__version__:
            raise without_attnspec(address, told if isinstance(told, str) else f"it has attnspec {told.version}")
        if told.absent:
            raise UsageError(f"the worker {address} has no {told.absent[0]}. Files and folders that the command names "
                             "must lie at the same place on every worker's machine.")
        if told.wrong:
            raise UsageError(f"the worker {address} cannot judge: {told.wrong}")
        if told.digest != self.digest:
            raise UsageError(f"the worker {address} has the spec {told.digest[:12]}, and here it is "
                             f"{self.digest[:12]}. Install the same attnspec in both places.")
        self._check_releases(address, told)
        return told

    def _check_releases(self, address: str, told: WorkerAnswer) -> None:
        """Two releases of a library may be judged differently, and who would get what is chance."""
        for target, release in told.releases.items():
            for other in () if told.missing[target] else self.able(target):
                if (known := self.answers[other].releases[target]) != release:
                    raise UsageError(
                        f"the worker {address} has release {release or 'unknown'} of the library of {target}, and "
                        f"{other} has {known or 'unknown'}. Install one release on all workers.")

    def able(self, target: str) -> tuple[str, ...]:
        """The workers that can judge a target."""
        return tuple(address for address, told in self.answers.items() if not told.missing.get(target, ""))

    def why_missing(self) -> Mapping[str, str]:
        """Why no worker can judge a target, by target; empty if one can."""
        targets = dict.fromkeys(target for told in self.answers.values() for target in told.missing)
        return {target: self.why_not(target) for target in targets}

    def why_not(self, target: str) -> str:
        """Empty if a worker can judge it."""
        reasons = [told.missing.get(target, "") for told in self.answers.values()]
        return reasons[0] if reasons and all(reasons) else ""

    def slots(self, workers: Iterable[str]) -> int:
        """How many tasks these workers take at once."""
        return sum(self.threads.get(address, 0) for address in workers)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a header says of them all: where they differ, all that there is. Cards say it of each subject."""
        told = [answer.environment for answer in self.answers.values()]
        names = dict.fromkeys(name for each in told for name in each)
        joint = {name: ", ".join(dict.fromkeys(each[name] for each in told if name in each)) for name in names}
        return {**joint, "workers": str(self.slots(self.answers))}
