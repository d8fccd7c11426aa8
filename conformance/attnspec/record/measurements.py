"""What a probe found, how rules of judgement fared on faults, and blocks of cases judged for false alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from attnspec.core.nouns import DType
from attnspec.record.outcome import Measured


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


BINS = 44
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
        if len(self.histogram) not in (0, BINS) or any(count < 0 for count in self.histogram):
            raise ValueError(f"a histogram has {BINS} counts of cases, none below zero.")

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_block(self.block)


def part_of_block(block: int) -> str:
    """The name of a block's part: `block 3`."""
    return f"block {block}"
