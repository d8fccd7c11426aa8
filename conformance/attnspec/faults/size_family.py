"""Families of faults: each has a mechanism, and sizes at which it bites, whose numbers a seed
draws.

Sizes are told in words, so that a finding can be compared with them.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnspec.problems.problem import Sizes


Axes = Mapping[str, int]
"""The lengths of all axes by name: B, H, Hkv, G (query heads a key head), T, S, D, Dv, and B·H."""

GRID = "B·H"


def axes_of(sizes: Sizes) -> Axes:
    """The lengths of all axes of a problem, with those that follow from others."""
    own = {name: int(getattr(sizes, name)) for name in ("B", "H", "Hkv", "T", "S", "D", "Dv")}
    return {**own, "G": own["H"] // max(own["Hkv"], 1), GRID: own["B"] * own["H"]}


class Relation(enum.Enum):
    """How the length of an axis has to stand to a number."""

    ABOVE = "above"
    UP_TO = "up to"
    EXACTLY = "exactly"
    BAND = "band"            # above the number, up to twice the number
    PARTIAL = "partial"      # more than a block, and no whole number of blocks
    WHOLE = "whole"          # several whole blocks
    ONE_MORE = "one more"    # whole blocks, and one
    ONE_LESS = "one less"    # whole blocks, less one
    NO_POWER = "no power"    # above the number, not a power of two
    LONGER = "longer"        # than another axis, by more than the number
    UNLIKE = "unlike"        # another axis


_HOLDS: Mapping[Relation, Callable[[int, int, int], bool]] = {
    Relation.ABOVE: lambda length, number, _: length > number,
    Relation.UP_TO: lambda length, number, _: length <= number,
    Relation.EXACTLY: lambda length, number, _: length == number,
    Relation.BAND: lambda length, number, _: number < length <= 2 * number,
    Relation.PARTIAL: lambda length, number, _: length > number and length % number != 0,
    Relation.WHOLE: lambda length, number, _: length > number and length % number == 0,
    Relation.ONE_MORE: lambda length, number, _: length > number and length % number == 1,
    Relation.ONE_LESS: lambda length, number, _: length > number and length % number == number - 1,
    Relation.NO_POWER: lambda length, number, _: length > number and length & (length - 1) != 0,
    Relation.LONGER: lambda length, number, other: length > other + number,
    Relation.UNLIKE: lambda length, _, other: length != other,
}
"""Of the axis's length, the number and the length of the other axis."""


@dataclass(frozen=True, slots=True)
class Term:
    """One demand on an axis's length; `other` is the axis that it is compared with, if any."""

    axis: str
    relation: Relation
    number: int = 0
    other: str = ""

    def holds(self, axes: Axes) -> bool:
        """Whether these lengths meet the demand."""
        return _HOLDS[self.relation](axes[self.axis], self.number, axes[self.other] if self.other else 0)

    @property
    def text(self) -> str:
        """The demand in the words of a fault's reach: `S > 64, no multiple of 64`."""
        axis, number = self.axis, self.number
        more = f" + {number}" if number else ""
        return {Relation.ABOVE: f"{axis} > {number}", Relation.UP_TO: f"{axis} <= {number}",
                Relation.EXACTLY: f"{axis} = {number}", Relation.BAND: f"{axis} from {number + 1} to {2 * number}",
                Relation.PARTIAL: f"{axis} > {number}, not a multiple of {number}",
                Relation.WHOLE: f"{axis} > {number}, a multiple of {number}",
                Relation.ONE_MORE: f"{axis} > {number}, one more than a multiple of {number}",
                Relation.ONE_LESS: f"{axis} > {number}, one less than a multiple of {number}",
                Relation.NO_POWER: f"{axis} > {number}, not a power of two",
                Relation.LONGER: f"{axis} > {self.other}{more}", Relation.UNLIKE: f"{axis} other than {self.other}",
                }[self.relation]


@dataclass(frozen=True, slots=True)
class Planted:
    """A mechanism with its number, and where it bites; everywhere else the answer is right.

    size: the number that the mechanism goes by: of a block, a tile, a grid.  terms: demands, all
    of which have to be met.  keywords: all of them have to be in use.
    """

    mechanism: str
    size: int
    terms: tuple[Term, ...]
    keywords: frozenset[str] = frozenset()
    seed: int = 0

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes whose lengths matter, each once."""
        return tuple(dict.fromkeys(axis for term in self.terms for axis in (term.axis, term.other) if axis))

    def bites(self, axes: Axes, keywords: Collection[str]) -> bool:
        """Whether a call of these lengths, with these keywords in use, is answered wrongly."""
        return self.keywords <= set(keywords) and all(term.holds(axes) for term in self.terms)

    @property
    def reach(self) -> str:
        """The sizes and keywords at which it bites, in words."""
        terms = "; ".join(term.text for term in self.terms)
        return f"{terms}; with {' and '.join(sorted(self.keywords))}" if self.keywords else terms

    def least(self) -> Axes:
        """Small lengths at which it bites, few of them 1: batch, heads, rows, keys, features."""
        lengths = {name: min(self._fixed_lengths(name), default=max([length, *self._starts(name)]))
                   for name, length in _SMALL.items()}
        while failing := next((term for term in self.terms if not term.holds(_add_following_axes(lengths))), None):
            lengths[_GROWN.get(failing.axis, failing.axis)] += 1
        return _add_following_axes(lengths)

    def _starts(self, axis: str) -> Iterator[int]:
        """Lengths below which no demand on the axis is met: a search from 1 would be long."""
        grows = (Relation.UP_TO, Relation.UNLIKE, Relation.LONGER)
        return (term.number for term in self.terms if term.axis == axis and term.relation not in grows)

    def _fixed_lengths(self, axis: str) -> tuple[int, ...]:
        """Lengths that an axis cannot exceed; its usual length is among them."""
        most = tuple(term.number for term in self.terms
                     if term.axis == axis and term.relation in (Relation.UP_TO, Relation.EXACTLY))
        return (*most, *(_SMALL[axis] for term in self.terms if most and term.relation is Relation.UP_TO))

    def neighbouring_lengths(self) -> Iterator[Axes]:
        """Lengths beside those at which it bites, where all is right: one set for each demand."""
        inside = self.least()
        for term in self.terms:
            yield from self._nearest_outside(term, inside)

    def _nearest_outside(self, term: Term, inside: Axes) -> Iterator[Axes]:
        """The nearest lengths of the demand's axis that do not meet it, if there are any."""
        axis = _GROWN.get(term.axis, term.axis)
        for length in (*range(inside[axis] - 1, 0, -1), *range(inside[axis] + 1, 2 * inside[axis] + 2)):
            lengths = _add_following_axes({**{name: inside[name] for name in _SMALL}, axis: length})
            if not term.holds(lengths):
                yield lengths
                return


_SMALL: Axes = {"B": 2, "Hkv": 2, "G": 1, "T": 7, "S": 9, "D": 8, "Dv": 6}
_GROWN = {"H": "Hkv", GRID: "Hkv"}  # which axis grows where one is too short that follows from others


def _add_following_axes(lengths: Axes) -> Axes:
    """The lengths, with those that follow from others."""
    H = lengths["Hkv"] * lengths["G"]
    return {**lengths, "H": H, GRID: lengths["B"] * H}


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
    """A demand on an axis, by a number drawn from `among`, or `times` the mechanism's size."""

    axis: str
    relation: Relation
    among: tuple[int, ...] = ()
    times: int = 1
    other: str = ""

    def term(self, dice: random.Random, size: int) -> Term:
        """The demand with its number."""
        number = dice.choice(self.among) if self.among else self.times * size
        return Term(self.axis, self.relation, number, self.other)


def longer_than(axis: str, among: tuple[int, ...] = (), *, times: int = 1) -> Draw:
    """A length above a drawn number or, without numbers, above the mechanism's size."""
    return Draw(axis, Relation.ABOVE, among, times)


def partial(axis: str, among: tuple[int, ...] = ()) -> Draw:
    """A length above a block that is no whole number of blocks."""
    return Draw(axis, Relation.PARTIAL, among)


def exactly(axis: str, *among: int) -> Draw:
    """One drawn length."""
    return Draw(axis, Relation.EXACTLY, among)


def longer(axis: str, other: str, among: tuple[int, ...] = (0,)) -> Draw:
    """A length above that of another axis, by more than a drawn number."""
    return Draw(axis, Relation.LONGER, among, other=other)


def unlike(axis: str, other: str) -> Draw:
    """A length other than that of another axis."""
    return Draw(axis, Relation.UNLIKE, (0,), other=other)


_BESIDE: Mapping[str, str] = {
    "the last block is of the next head": "Hkv > 1", "no scale in the last block": "a scale other than 1",
    **dict.fromkeys(("the scale is of the next power of two", "the scale is of whole tiles",
                     "the scale is of the first tile", "the scale is of the values"), "no explicit scale")}
"""By mechanism, what it needs beside the sizes and keywords that are drawn, in words."""


def reach_of(planted: Planted, needs: str = "") -> str:
    """Where a fault shows, in words: its sizes, its keywords, and what its mechanism needs."""
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
    """One mechanism of faults under one kind of condition.

    stage: where in attention it sits, as in `Stage`.  mechanism: its name in `MECHANISMS`.  sizes:
    the numbers from which the mechanism's own is drawn.  terms: where it bites, all of them
    together. needs: what the mechanism needs besides, in words.
    """

    name: str
    stage: str
    mechanism: str
    story: str
    sizes: tuple[int, ...]
    terms: tuple[Draw, ...]
    keywords: str = ""
    needs: str = ""

    def plant(self, seed: int) -> Planted:
        """The fault that a seed plants: the same for the same seed, on any machine."""
        dice = random.Random(f"{self.name} {seed}")
        size = dice.choice(self.sizes)
        terms = tuple(draw.term(dice, size) for draw in self.terms)
        return Planted(self.mechanism, size, terms, frozenset(self.keywords.split()), seed)

    @property
    def clauses(self) -> tuple[str, ...]:
        """The ordinary clauses it is put to: for the definition, its keywords and its axes."""
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
