"""What happens during a run, in order. Every output is a handler of these.

RunStarted, then SubjectKnown (once a subject's adapter is loaded), ItemStarted and ItemFinished, then RunFinished.
A measurement of power has SubjectPut in their place, a campaign for false alarms BlockJudged, a ranking KernelRanked;
an audit has SubjectProbed beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from attnspec.record.clause_text import ClauseText
from attnspec.record.measurements import BlockJudged, SubjectProbed, SubjectPut
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.record.ranked import KernelRanked

OF_SUBJECTS = ("numpy", "ml_dtypes", "torch", "jax", "jaxlib")
"""The packages whose versions a header tells of the environment in which subjects live."""

OWN_DEVICE = "the framework's own"
"""The device of a header where none was named: the cards of the subjects tell which it was (`lives_in`)."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The header of a record. `clauses` embeds what a page shows of each clause, so that it outlives the spec.

    `planned` is how many items each subject has, so that a run that was killed still says what it did not reach.
    `spec_added`: the files of own clauses that were judged beside the spec; its digest covers them.
    `absent`: the registered subjects that an audit could not judge (subject, library, title, reason).
    `baseline`: the file of known failures that the run is held against; empty if none.
    `must_take`: the contract that the subjects are held to, in its words; empty if there is none.
    `sizes`: those that the user names for all subjects; what a subject declares stands in its card.
    `sample`: so many cases of a clause that does not depend on the dtype were tried at further dtypes; 0: all were.
    `shard`: which part of a run this is (`2/5`), empty for a whole one; `plan_digest`: what all its shards share, and
    what a ranking that goes on must have.
    A measurement of power also embeds what a page shows of each rule of judgement (`rules`: name, title, source,
    meaning) and of each fault (`faults`: name, kind, stage, story, reach, link).
    """

    started: str
    command: tuple[str, ...]
    spec_version: str
    spec_digest: str
    seed: int
    effort: str
    strict: bool
    items: int
    dtypes: tuple[str, ...]
    environment: Mapping[str, str]
    clauses: tuple[ClauseText, ...]
    planned: Mapping[str, int] = field(default_factory=dict)
    format: int = 1
    rules: tuple[Mapping[str, str], ...] = ()
    faults: tuple[Mapping[str, str], ...] = ()
    absent: tuple[Mapping[str, str], ...] = ()
    spec_added: tuple[str, ...] = ()
    baseline: str = ""
    must_take: str = ""
    sizes: tuple[str, ...] = ()
    shard: str = ""
    plan_digest: str = ""
    sample: int = 0

    @property
    def elsewhere(self) -> str:
        """What subjects live in, where that is not the judge's own environment: `CPython 3.8.18 with numpy 1.20.3`."""
        if "judge" not in self.environment:
            return ""
        packages = [f"{name} {self.environment[name]}" for name in OF_SUBJECTS if name in self.environment]
        return f"{self.environment.get('python', 'Python')} with {', '.join(packages)}"


@dataclass(frozen=True, slots=True)
class SubjectKnown:
    """A subject was loaded (or could not be: then `broken` says why)."""

    card: SubjectCard
    broken: str = ""


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """An item is on trial."""

    subject: str
    clause: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ItemFinished:
    """An item has its verdict."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The footer of a record: without it the run was interrupted."""

    finished: str
    seconds: float
    counts: Mapping[str, int]
    exit_code: int
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectCompiles:
    """Compiling has taken so many seconds of a subject's calls. It is for whoever waits: no record keeps it."""

    subject: str
    seconds: float


Done = ItemFinished | SubjectPut | BlockJudged | SubjectProbed | KernelRanked
"""How a job of a run ends."""

Key = tuple[str, str, str]


def key_of(event: Done) -> Key:
    """Subject, part and dtype, which tell a job from all others of its run."""
    if isinstance(event, ItemFinished):
        outcome = event.outcome
        return outcome.subject, outcome.clause, outcome.dtype.value
    if isinstance(event, KernelRanked):
        return event.subject, event.part, ""
    return event.subject, event.part, event.dtype.value


Event = RunStarted | SubjectKnown | ItemStarted | Done | RunFinished | SubjectCompiles


class Handler(Protocol):
    """An output of a run. One that opens or closes nothing inherits what does nothing."""

    def start(self) -> None:
        """Open what is written to."""
        return

    def handle(self, event: Event) -> None:
        """Take one event."""

    def shutdown(self) -> None:
        """Close what was opened, also after an interruption."""
        return
