"""What a family of faults is: a mechanism, and the sizes at which it bites, whose numbers a seed draws."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attnspec.faults.planted import Planted, Relation, Term

SEEDED = "@"
"""Between a family's name and the seed that draws its numbers; without it the seed is 0."""

BLOCKS = (16, 32, 32, 64, 64, 64, 128, 128, 128, 256)
"""Tiles of rows and blocks of keys that kernels have; what most have stands there most often."""

SPLITS = (64, 128, 128, 256, 256, 512, 512, 1024)
"""Keys that one split, or one pass, takes."""

LENGTHS = (64, 127, 128, 128, 255, 256, 256, 511, 512, 512, 1023, 1024, 2047, 2048)
"""Lengths at which kernels change over: `>` and `>=`."""

WIDTHS = (32, 63, 64, 64, 64, 80, 96, 128, 128, 128, 160, 192)
"""Head widths at which kernels change over."""

ODD_WIDTHS = (40, 72, 80, 80, 96, 96, 112, 160, 192)
"""Head widths that models have and kernels pad."""

TILES = (8, 16, 16, 32, 32, 64)
"""Tiles of features or columns."""

BATCHES, HEADS, GRIDS = (2, 3, 4, 4, 7, 8), (4, 7, 8, 8, 12, 16, 31, 32), (8, 12, 16, 24, 31, 32, 32, 64)
SHARING = (1, 1, 2, 3, 4)
"""Query heads a key head."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A demand on an axis whose number is drawn among some, or is so many times the mechanism's own size."""

    axis: str
    relation: Relation
    among: tuple[int, ...] = ()
    times: int = 1
    other: str = ""

    def term(self, dice: random.Random, size: int) -> Term:
        """The demand with its number."""
        return Term(self.axis, self.relation, dice.choice(self.among) if self.among else self.times * size, self.other)


def above(axis: str, among: tuple[int, ...] = (), *, times: int = 1) -> Draw:
    """Longer than a drawn number; without any, than the mechanism's size."""
    return Draw(axis, Relation.ABOVE, among, times)


def partial(axis: str, among: tuple[int, ...] = ()) -> Draw:
    """Longer than a block, and no whole number of blocks."""
    return Draw(axis, Relation.PARTIAL, among)


def exactly(axis: str, *among: int) -> Draw:
    """One drawn length alone."""
    return Draw(axis, Relation.EXACTLY, among)


def longer(axis: str, other: str, among: tuple[int, ...] = (0,)) -> Draw:
    """Longer than another axis, by more than a drawn number."""
    return Draw(axis, Relation.LONGER, among, other=other)


def unlike(axis: str, other: str) -> Draw:
    """Another length than that of the other axis."""
    return Draw(axis, Relation.UNLIKE, (0,), other=other)


_BESIDE: Mapping[str, str] = {
    "the last block is of the next head": "Hkv > 1", "no scale in the last block": "a scale other than 1",
    **dict.fromkeys(("the scale is of the next power of two", "the scale is of whole tiles",
                     "the scale is of the first tile", "the scale is of the values"), "no explicit scale")}
"""By mechanism, what it needs beside the sizes and keywords that are drawn, in words."""


def reach_of(planted: Planted, needs: str = "") -> str:
    """Where it shows, in words: at the sizes and keywords that were drawn, and what its mechanism `needs` beside."""
    beside = needs or _BESIDE.get(planted.mechanism)
    return f"{planted.reach}; {beside}" if beside else planted.reach


_CLAUSES: Mapping[str, tuple[str, ...]] = {
    "": ("attention.weights_definition",), "mask": ("masking.definition",), "bias": ("bias.definition",),
    "causal": ("causal.flag_is_mask", "causal.alignment")}
"""By keyword, where these are more than its definition, or another's."""
_OF_BOTH: Mapping[frozenset[str], tuple[str, ...]] = {
    frozenset({"causal", "mask"}): ("causal.with_mask",), frozenset({"causal", "bias"}): ("causal.with_bias",)}


@dataclass(frozen=True, slots=True)
class FaultFamily:
    """A family of faults: one mechanism under one kind of condition.

    stage: where in attention it sits, as `Stage` has it.  mechanism: by its name in `MECHANISMS`.  sizes: among which
    the mechanism's own number is drawn.  terms: where it bites, all of them together.
    needs: what the mechanism needs beside the sizes and keywords, in words.
    """

    name: str
    stage: str
    mechanism: str
    story: str
    sizes: tuple[int, ...]
    terms: tuple[Draw, ...]
    keywords: str = ""
    needs: str = ""

    def drawn(self, seed: int) -> Planted:
        """What the seed plants: the same for the same seed, on any machine."""
        dice = random.Random(f"{self.name} {seed}")
        size = dice.choice(self.sizes)
        terms = tuple(draw.term(dice, size) for draw in self.terms)
        return Planted(self.mechanism, size, terms, frozenset(self.keywords.split()), seed)

    @property
    def clauses(self) -> tuple[str, ...]:
        """The ordinary clauses that it is put to: the definition, and what its keywords and its axes promise."""
        return ("attention.definition", *self._of_keywords(), *self._of_groups())

    def _of_keywords(self) -> Iterator[str]:
        if both := _OF_BOTH.get(frozenset(self.keywords.split())):
            yield from both
            return
        for keyword in self.keywords.split() or [""]:
            yield from _CLAUSES.get(keyword, (f"{keyword}.definition",))

    def _of_groups(self) -> Iterator[str]:
        if any(draw.axis in ("G", "Hkv") for draw in self.terms):
            yield "grouped.definition"
