"""What happens during a run, in order. Every output is a handler of these.

RunStarted, then SubjectKnown (once a subject's adapter is loaded), ItemStarted and ItemFinished, then RunFinished. A
measurement of power has SubjectPut in their place (how rules of judgement fared on faults), a campaign for false alarms
BlockJudged (a block of cases), a ranking KernelRanked; an audit has SubjectProbed beside them (what a probe found).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from attnspec.core.nouns import DType
from attnspec.core.surroundings import SUBJECT_LIBRARIES
from attnspec.record.outcome import ClauseText, Measured, Outcome, SubjectCard


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one question of a probe.

    question: its name ("hidden_row.mask").  asks: the question for a reader.  answer: a word of a closed list where
    there is one ("zeros", "top_left", "yes"), else a short text.  detail: what was seen, in one sentence with the
    numbers.  claimed: what the manifest says, empty if nothing.
    """

    question: str
    asks: str
    answer: str
    detail: str = ""
    claimed: str = ""

    @property
    def is_contradiction(self) -> bool:
        """Whether the manifest says otherwise."""
        return bool(self.claimed) and self.claimed != self.answer


@dataclass(frozen=True, slots=True)
class SubjectProbed:
    """All that was found out of a subject, or of one of its variants, at one dtype. `lost`: why nothing was."""

    subject: str
    variant: str
    dtype: DType
    found: tuple[Found, ...]
    seconds: float = 0.0
    lost: str = ""

    @property
    def part(self) -> str:
        """What of the subject this is."""
        return part_of_probe(self.variant)


def part_of_probe(variant: str = "") -> str:
    """How an item says that a subject, or a variant of it, is probed."""
    return f"probe[{variant}]" if variant else "probe"


SUITE = "attnspec"
"""The name under which the suite itself stands among the rules."""


@dataclass(frozen=True, slots=True)
class Conviction:
    """One rule on one subject at one seed.

    convicted: whether the rule called the subject wrong.  cases: how many cases it took; where it did not, how many
    were tried. For the suite a case is one problem put to one clause, and `cases` counts those of the clause that
    convicted soonest; `problems` counts every problem of every clause that was tried before, in the suite's own order.
    sentence: what was seen, kept where a sound subject is accused.
    """

    BRIEF: ClassVar[bool] = True

    rule: str
    convicted: bool = False
    cases: int = 0
    problems: int = 0
    clause: str = ""
    instrument: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class SubjectPut:
    """A subject was put to the rules. `fault`: whether it is wrong; `equivalent`: why it cannot be told apart here.

    named: what the diagnosis says first of the suite's counterexample: the name of a fault, or "" for none.
    like: the other faults that explain it as well.  undiagnosed: nobody asked for a diagnosis.  shows_at: the sizes at
    which alone a fault shows; "" for all others.
    """

    BRIEF: ClassVar[bool] = True

    subject: str
    dtype: DType
    seed: int
    is_fault: bool
    stage: str
    equivalent: str = ""
    convictions: tuple[Conviction, ...] = ()
    named: str = ""
    like: tuple[str, ...] = ()
    undiagnosed: bool = False
    seconds: float = 0.0
    lost: str = ""
    shows_at: str = ""

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_seed(self.seed)


def part_of_seed(seed: int) -> str:
    """The name of a seed's part: `seed 3`."""
    return f"seed {seed}"


HISTOGRAM_BINS = 44
"""Margins are counted in so many bins of half an octave: up to 2^-20, then up to 2^1 and beyond."""


@dataclass(frozen=True, slots=True)
class BlockJudged:
    """One subject at one dtype on one block of cases.

    cases: problems put to a clause that made a claim on them.  slices: head slices (B·H) that these hold together.
    histogram: how many cases had their worst margin in each of the bins.  worst: the closest call of all, on the
    clause `clause`, with its recipe.  accused: the first few violations, as lines to replay.  known: how many further
    cases were violated by a finding that is listed under this name; they are no `cases` and no `violations`.
    problems: distinct problems among all that were put.
    """

    subject: str
    dtype: DType
    block: int
    cases: int
    slices: int
    no_claims: int
    violations: int
    histogram: tuple[int, ...]
    worst: Measured | None = None
    clause: str = ""
    recipe: str = ""
    accused: tuple[str, ...] = ()
    seconds: float = 0.0
    lost: str = ""
    known: Mapping[str, int] = field(default_factory=dict)
    problems: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a histogram that no cases make."""
        if len(self.histogram) not in (0, HISTOGRAM_BINS) or any(count < 0
                                                                 for count in self.histogram):
            raise ValueError(f"a histogram has {HISTOGRAM_BINS} counts of cases, none below zero.")

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_block(self.block)


def part_of_block(block: int) -> str:
    """The name of a block's part: `block 3`."""
    return f"block {block}"


RANK_PART = "rank"
"""The part of a kernel that is on trial: all of it."""


class KernelStanding(enum.Enum):
    """The verdict on a kernel as a whole. NOT_JUDGED: it could not be had, or nothing applied to it."""

    CONFORMS = "conforms"
    VIOLATED = "violated"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first `must` clause that failed, and what is known of that failure.

    seen: what went wrong, in a sentence.  cause: what is likely behind it; "" where nobody knows.  fault: the fault of
    the catalogue that it is like, if it is like one.  boundary: at which sizes it fails, and beside which it holds.
    repeat: the command that repeats the case.
    """

    clause: str
    dtype: str
    seen: str = ""
    cause: str = ""
    fault: str = ""
    boundary: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class KernelRanked:
    """One kernel was judged.

    score: the share of applicable `must` clauses that held at every dtype; what was dropped before its turn did not.
    held, failed, untried: how many of these clauses did so, did not, and were dropped.  failing: those that failed.
    first: the first of them.  margin, closest: the largest gap as a share of what is allowed, and on which clause and
    dtype.  grade: by dtype, how precise it is.  refused: what it refuses, and so is not judged on.  death: how its
    process ended, if it did.  stopped: why clauses were dropped.  reason: why it could not be judged.  digest: of its
    file, to tell whether it has changed since.  lost: what went wrong with attnspec itself.
    """

    subject: str
    verdict: KernelStanding
    score: float = 0.0
    held: int = 0
    failed: int = 0
    untried: int = 0
    failing: tuple[str, ...] = ()
    first: FirstFailure | None = None
    margin: float = 0.0
    closest: str = ""
    grade: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    seconds: float = 0.0
    death: str = ""
    stopped: str = ""
    reason: str = ""
    digest: str = ""
    lost: str = ""

    @property
    def part(self) -> str:
        """What of the subject this is."""
        return RANK_PART


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
        packages = [f"{name} {self.environment[name]}"
                    for name in SUBJECT_LIBRARIES if name in self.environment]
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
