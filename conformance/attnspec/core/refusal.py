"""What is not taken, as one writes it: `D > 256`, `T ≠ S`, `D % 8 ≠ 0`, `window with T ≠ S`, `softcap without causal`.

Declared, or found out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from attnspec.core.errors import UsageError
from attnspec.core.keywords import OFF

AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key/value heads", "G": "query heads for each key/value head, H / Hkv",
    "T": "queries", "S": "keys", "D": "width of query and key", "Dv": "width of values"}
"""The axes that a condition may speak of. G follows from the others."""

LARGEST_SIZE = 2**14
"""No axis is longer, where problems are made."""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    ">": operator.gt, "<": operator.lt, "≥": operator.ge, "≤": operator.le, "≠": operator.ne, "=": operator.eq}
_SPELLED: Mapping[str, str] = {">=": "≥", "<=": "≤", "!=": "≠", "==": "="}
_SIZE = r"\d{1,7}"
_COMPARED = re.compile(rf"(?P<axis>\w+)\s*(?:%\s*(?P<step>{_SIZE}))?\s*(?P<sign>>=|<=|!=|==|[<>≥≤≠=])\s*(?P<than>\w+)",
                       re.ASCII | re.VERBOSE)
_LISTED = re.compile(rf"(?P<axis>\w+)\s+(?P<sign>not\s+in|in)\s+\((?P<than>{_SIZE}(?:\s*,\s*{_SIZE})*),?\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RefusalCondition:
    """A condition on sizes under which a call is refused.

    sign: a comparison with a number or another axis, or `in` and `not in`, with numbers.

    step: where it is more than 1, what remains of the axis divided by it is compared.
    """

    axis: str
    sign: str
    than: int | str | tuple[int, ...]
    step: int = 1

    def holds_at(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition holds at these sizes, which have every axis."""
        size = sizes[self.axis] if self.step == 1 else sizes[self.axis] % self.step
        if isinstance(self.than, tuple):
            return (size in self.than) is (self.sign == "in")
        return _COMPARISONS[self.sign](size, sizes[self.than] if isinstance(self.than, str) else self.than)

    @property
    def is_of_one_axis(self) -> bool:
        """Whether no other axis matters."""
        return not isinstance(self.than, str)

    def __str__(self) -> str:
        axis = self.axis if self.step == 1 else f"{self.axis} % {self.step}"
        than = f"({', '.join(map(str, self.than))})" if isinstance(self.than, tuple) else str(self.than)
        return f"{axis} {self.sign} {than}"


@lru_cache(maxsize=4096)  # planning asks for the same few sizes thousands of times
def nearest_taken(size: int, refused: tuple[RefusalCondition, ...], least: int = 1) -> int:
    """The size nearest to this one, and not below `least`, at which none of these conditions on its axis holds: smaller
    ones first. The size itself where there is none up to LARGEST_SIZE away.
    """
    near = (size + sign * away for away in range(LARGEST_SIZE if refused else 1) for sign in (-1, 1))
    return next((each for each in near if each >= least and not any(one.holds_at({one.axis: each}) for one in refused)),
                size)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Problems that have all of these keywords and meet all of these conditions are not taken.

    without: unless they have all of these as well.
    """

    conditions: tuple[RefusalCondition, ...] = ()
    keywords: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def meets(self, sizes: Mapping[str, int], keywords: Collection[str]) -> bool:
        """Whether a problem of these sizes, with these keywords in use, is refused; `sizes` has every axis."""
        has = set(keywords)
        is_spared = bool(self.without) and self.without <= has
        return self.keywords <= has and not is_spared and all(each.holds_at(sizes) for each in self.conditions)

    def covers(self, other: Refusal) -> bool:
        """Whether the refusal refuses what another one does, and more: of lengths of one axis alone; False for all
        else.
        """
        mine, its = self.single_condition, other.single_condition
        if not mine or not its or mine.axis != its.axis or self == other or self.without or other.without:
            return False
        lengths = ({mine.axis: length} for length in range(1, LARGEST_SIZE))
        return all(mine.holds_at(each) for each in lengths if its.holds_at(each))

    @property
    def single_condition(self) -> RefusalCondition | None:
        """The condition of a refusal on the length of one axis, where it has no other and names no keyword."""
        is_bare = not self.keywords and len(self.conditions) == 1 and self.conditions[0].is_of_one_axis
        return self.conditions[0] if is_bare else None

    def __str__(self) -> str:
        keywords, conditions = " and ".join(sorted(self.keywords)), " and ".join(map(str, self.conditions))
        what = " with ".join(filter(None, (keywords, conditions)))
        return " without ".join(filter(None, (what, " and ".join(sorted(self.without)))))


def read_refusal(text: str) -> Refusal:
    """The refusal that is written so. Raises UsageError that says which part of it is no keyword and no condition."""
    what, *without = re.split(r"\s+without\s+", text.strip())
    parts, spared = (re.split(r"\s+(?:with|and)\s+", part) for part in (what, " and ".join(without)))
    keywords = frozenset(part for part in parts if part in OFF)
    return Refusal(tuple(_condition(part) for part in parts if part not in OFF), keywords,
                   frozenset(_keyword(part) for part in spared if part))


def _keyword(name: str) -> str:
    if name not in OFF:
        raise UsageError.unknown("keyword", name, OFF)
    return name


def _condition(text: str) -> RefusalCondition:
    if match := _LISTED.fullmatch(text):
        sign = "not in" if match["sign"] != "in" else "in"
        return RefusalCondition(_axis(match["axis"]), sign, tuple(int(size) for size in match["than"].split(",")))
    match = _COMPARED.fullmatch(text)
    if match is None:
        if text.isidentifier():
            raise UsageError.unknown("keyword", text, OFF)
        raise UsageError(f"{text!r} is no condition on sizes. Write it as 'D > 256', 'T != S', 'D % 8 != 0' or "
                         "'D not in (64, 128)'.")
    than = int(match["than"]) if match["than"].isdecimal() else _axis(match["than"])
    if match["step"] and not int(match["step"]):
        raise UsageError(f"{text!r} divides by 0.")
    return RefusalCondition(_axis(match["axis"]), _SPELLED.get(match["sign"], match["sign"]), than,
                            int(match["step"] or 1))


def _axis(name: str) -> str:
    if name not in AXES:
        raise UsageError.unknown("axis", name, AXES)
    return name
