"""Blocks of cases that sound implementations were judged on, and how close each came to being accused."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnspec.ground.nouns import DType
from attnspec.record.outcome import Measured

FINEST, STEP, BINS = 2.0**-20, 0.5, 44
"""Margins are counted in bins of half an octave: below 2^-20, then up to 2^1.5 and beyond."""


def bin_of(margin: float) -> int:
    """The bin that a margin falls in, 0 … BINS - 1. The last ones are those above 1: accusations."""
    if not margin > FINEST:
        return BINS - 1 if math.isnan(margin) else 0
    return min(BINS - 1, 1 + int(math.log2(min(margin, 4.0) / FINEST) / STEP))


def upper_edge(number: int) -> float:
    """The margin at which a bin ends."""
    return float(FINEST * 2 ** (STEP * number))


@dataclass(frozen=True, slots=True)
class BlockJudged:
    """One subject at one dtype on one block of cases.

    cases: problems put to a clause that made a claim on them.  slices: head slices (B·H) that these hold together.
    histogram: how many cases had their worst margin in each bin (`bin_of`).  worst: the closest call of all, on the
    clause `clause`, with its recipe.  accused: the first few violations, as lines to replay.
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

    @property
    def part(self) -> str:
        """What tells this event from the others of its subject and dtype."""
        return part_of_block(self.block)


def part_of_block(block: int) -> str:
    """`block 3`."""
    return f"block {block}"
