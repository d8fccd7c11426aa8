"""The events of a run, in order. Every output is a handler of them.

RunStarted comes first, then SubjectKnown (once an adapter is loaded), ItemStarted and
ItemFinished, and last RunFinished. In place of items, a measurement of power has SubjectPut (how
rules did on faults), a campaign for false alarms BlockJudged (a block of cases), and a ranking
KernelRanked. An audit also has SubjectProbed.
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

    question: its name ("hidden_row.mask").  asks: the question for a reader.  answer: a word of a
    closed list if there is one ("zeros", "top_left", "yes"), else a short text.  detail: what was
    seen, in one sentence with numbers.  claimed: what the manifest says; may be empty.
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
    """All answers of a subject, or of one of its variants, at one dtype.

    lost: why there are none.
    """

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
    """The name of an item that probes a subject, or a variant of it."""
    return f"probe[{variant}]" if variant else "probe"


SUITE = "attnspec"
"""The name under which the suite itself stands among the rules."""


@dataclass(frozen=True, slots=True)
class Conviction:
    """One rule on one subject with one seed.

    convicted: whether the rule called the subject wrong.  cases: how many cases that took, or how
    many were tried. For the suite, a case is one problem under one clause, and the cases of the
    clause that convicts first are counted.  problems: how many problems all clauses had tried by
    then, in the suite's own order.  sentence: what was seen, if a right subject is called wrong.
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
    """A subject was put to the rules.

    is_fault: whether it is wrong.  equivalent: why it cannot be told from rounding here.  named:
    the fault that the diagnosis names first; empty if none.  like: other faults that explain the
    counterexample as well.  undiagnosed: whether no diagnosis was asked for.  shows_at: the sizes
    at which a fault shows; empty for all.
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
        """The name of the seed, which tells this event from others of its subject and dtype."""
        return part_of_seed(self.seed)


def part_of_seed(seed: int) -> str:
    """The name of a seed's part: `seed 3`."""
    return f"seed {seed}"


HISTOGRAM_BINS = 44
"""Margins are counted in so many bins of half an octave: up to 2^-20, then up to 2^1 and beyond."""


@dataclass(frozen=True, slots=True)
class BlockJudged:
    """One subject at one dtype on one block of cases.

    cases: problems under a clause that made a claim on them.  slices: how many head slices (B·H)
    these have.  histogram: how many cases had their worst margin in each bin.  worst: the largest
    margin, under the clause `clause`, with its recipe.  accused: the first violations, as lines to
    replay.  known: by the name of a finding, how many further cases it violates; these are counted
    neither as cases nor as violations.  problems: distinct problems.
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
        if len(self.histogram) not in (0, HISTOGRAM_BINS) or min(self.histogram, default=0) < 0:
            raise ValueError(f"a histogram has {HISTOGRAM_BINS} counts of cases, none below zero.")

    @property
    def part(self) -> str:
        """The name of the block, which tells this event from others of its subject and dtype."""
        return part_of_block(self.block)


def part_of_block(block: int) -> str:
    """The name of a block's part: `block 3`."""
    return f"block {block}"


RANK_PART = "rank"
"""The part of a kernel that is on trial: all of it."""


class KernelStanding(enum.Enum):
    """The verdict on a kernel. NOT_JUDGED: it could not be loaded, or nothing applied to it."""

    CONFORMS = "conforms"
    VIOLATED = "violated"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first `must` clause that failed, and what is known of that failure.

    seen: what went wrong, in a sentence.  cause: what is likely behind it; may be empty.  fault:
    the fault of the catalogue that it is like; may be empty.  boundary: at which sizes it fails
    and holds.  repeat: the command that repeats the case.
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

    score: the share of applicable `must` clauses that held at every dtype; those that were dropped
    did not.  held, failed, untried: how many of these clauses held, failed and were dropped.
    failing: the ids of those that failed.  first: the first of them.  margin, closest: the largest
    gap as a share of the allowance, and its clause and dtype.  grade: by dtype, its precision
    grade.  refused: what it refuses and is not judged on.  death: how its process ended, if it
    died.  stopped: why clauses were dropped.  reason: why it could not be judged.  digest: of its
    file, to notice changes.  lost: what went wrong in attnspec itself.
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
"""The device of a header if none was named; the cards of the subjects say which it was (`lives_in`)."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The header of a record.

    clauses: what a page shows of each, so that it outlives the spec.  planned: how many items each
    subject has, so that a killed run still says what it did not reach.  spec_added: files of own
    clauses, which the spec's digest covers.  absent: registered subjects that an audit could not
    judge (subject, library, title, reason).  baseline: the file of known failures; may be empty.
    must_take: the words of the contract; may be empty.  sizes: those that the user names for all
    subjects.  sample: how many cases of a clause that does not depend on the dtype were tried at
    further dtypes; 0 if all were.  shard: which part of a run this is (`2/5`); empty for a whole
    one.  plan_digest: what all shards of a run share, and what a resumed ranking must have.
    rules: of a measurement of power, each rule (name, title, source, meaning).  faults: each fault
    (name, kind, stage, story, reach, link).
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
        """`CPython 3.8.18 with numpy 1.20.3`, if subjects live in another environment."""
        if "judge" not in self.environment:
            return ""
        packages = [f"{name} {self.environment[name]}"
                    for name in SUBJECT_LIBRARIES if name in self.environment]
        return f"{self.environment.get('python', 'Python')} with {', '.join(packages)}"


@dataclass(frozen=True, slots=True)
class SubjectKnown:
    """A subject was loaded. broken: why it could not be."""

    card: SubjectCard
    broken: str = ""


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """A worker has begun an item."""

    subject: str
    clause: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ItemFinished:
    """An item has its verdict."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The footer of a record. A run without it was interrupted."""

    finished: str
    seconds: float
    counts: Mapping[str, int]
    exit_code: int
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectCompiles:
    """Compiling has taken so many seconds of a subject's calls. No record keeps this event."""

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
    """An output of a run. By default, it opens and closes nothing."""

    def start(self) -> None:
        """Opens what is written to."""
        return

    def handle(self, event: Event) -> None:
        """Takes one event."""

    def shutdown(self) -> None:
        """Closes what was opened, also after an interruption."""
        return
