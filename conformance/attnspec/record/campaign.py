"""Blocks of cases that sound implementations were judged on, and how close each came to being accused."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.ground.nouns import DType
from attnspec.record.outcome import Measured

FINEST, STEP, BINS = 2.0**-20, 0.5, 44
"""Margins are counted in bins of half an octave: up to 2^-20, then up to 2^1 and beyond."""


def upper_edge(number: int) -> float:
    """The margin at which a bin ends; it still belongs to the bin, as a margin of 1 is no violation."""
    return float(FINEST * 2 ** (STEP * number))


_EDGES = tuple(upper_edge(number) for number in range(BINS - 1))


def bin_of(margin: float) -> int:
    """The bin that a margin falls in, 0 … BINS - 1."""
    return BINS - 1 if math.isnan(margin) else bisect_left(_EDGES, margin)


ACCUSING = bin_of(1.0) + 1
"""The first of the bins above 1: accusations."""


@dataclass(frozen=True, slots=True)
class BlockJudged:
    """One subject at one dtype on one block of cases.

    cases: problems put to a clause that made a claim on them.  slices: head slices (B·H) that these hold together.
    histogram: how many cases had their worst margin in each bin (`bin_of`).  worst: the closest call of all, on the
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

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_block(self.block)


def part_of_block(block: int) -> str:
    """`block 3`."""
    return f"block {block}"
