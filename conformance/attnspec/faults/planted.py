"""At which sizes a fault bites, in numbers that a finding can be compared with."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnspec.problems.problem import Sizes

Axes = Mapping[str, int]
"""The lengths of all axes by name: B, H, Hkv, G (query heads a key head), T, S, D, Dv, and B·H."""

GRID = "B·H"


def axes_of(sizes: Sizes) -> Axes:
    """The axes of a problem, those included that follow from others."""
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
    """One demand on the length of one axis. `other` is the axis that it is compared with, where it is."""

    axis: str
    relation: Relation
    number: int = 0
    other: str = ""

    def holds(self, axes: Axes) -> bool:
        """Whether these lengths meet it."""
        return _HOLDS[self.relation](axes[self.axis], self.number, axes[self.other] if self.other else 0)

    @property
    def text(self) -> str:
        """As a fault's reach says it: `S > 64, no multiple of 64`."""
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
    """What was planted: the mechanism and its number, and where it bites; everywhere else the answer is right.

    size: the number that the mechanism goes by: a block's, a tile's, a grid's.  terms: all of them have to hold.
    keywords: all of them have to be in use.
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
        """Small lengths at which it bites, nothing generic lost: several batch entries, heads, rows, keys, features."""
        lengths = {name: max([length, *self._starts(name)]) if not self._fixed(name) else min(self._fixed(name))
                   for name, length in _SMALL.items()}
        while failing := next((term for term in self.terms if not term.holds(_followed(lengths))), None):
            lengths[_GROWN.get(failing.axis, failing.axis)] += 1
        return _followed(lengths)

    def _starts(self, axis: str) -> Iterator[int]:
        """Lengths below which no term on the axis holds: a search from 1 would be long."""
        grows = (Relation.UP_TO, Relation.UNLIKE, Relation.LONGER)
        return (term.number for term in self.terms if term.axis == axis and term.relation not in grows)

    def _fixed(self, axis: str) -> tuple[int, ...]:
        """Lengths that an axis cannot exceed, its usual one among them."""
        most = tuple(term.number for term in self.terms
                     if term.axis == axis and term.relation in (Relation.UP_TO, Relation.EXACTLY))
        return (*most, *(_SMALL[axis] for term in self.terms if most and term.relation is Relation.UP_TO))

    def beside(self) -> Iterator[Axes]:
        """Lengths next to those at which it bites, one set for each term that can fail alone: there all is right."""
        inside = self.least()
        for term in self.terms:
            yield from self._outside(term, inside)

    def _outside(self, term: Term, inside: Axes) -> Iterator[Axes]:
        """The nearest lengths of the term's axis at which it fails; none where no length does."""
        axis = _GROWN.get(term.axis, term.axis)
        for length in (*range(inside[axis] - 1, 0, -1), *range(inside[axis] + 1, 2 * inside[axis] + 2)):
            lengths = _followed({**{name: inside[name] for name in _SMALL}, axis: length})
            if not term.holds(lengths):
                yield lengths
                return


_SMALL: Axes = {"B": 2, "Hkv": 2, "G": 1, "T": 7, "S": 9, "D": 8, "Dv": 6}
_GROWN = {"H": "Hkv", GRID: "Hkv"}  # which axis grows where one is too short that follows from others


def _followed(lengths: Axes) -> Axes:
    """With the axes that follow from others."""
    H = lengths["Hkv"] * lengths["G"]
    return {**lengths, "H": H, GRID: lengths["B"] * H}
