"""What is said of where failures begin, read back: conditions on axes, whether two may be of one bug, and which block.

A bug whose effect hangs on the entries is seen to begin at another size in every case, and to end there, too: its edges
have in common the block behind it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

SMALLEST = 16
"""Keys of the smallest block that is told from edges: below it, too many numbers are multiples."""
EIGHT = 8  # every block is a multiple of it
LARGEST = 1024
"""Keys of the largest block that is suggested."""

_AXIS = r"(?P<axis>[A-Z]v?(?: \(= [A-Z]v?\))?)"
_FROM = r"(?: and ≥ (?P<start>\d+))?"
_FORMS = tuple(re.compile(form) for form in (
    rf"(?:(?P<low>\d+) ≤ )?{_AXIS} ≤ (?P<high>\d+)", rf"{_AXIS} ≥ (?P<low>\d+)",
    rf"{_AXIS} = (?P<low>\d+)(?P<open>, though not at every \S+(?: \(= \S+\))? beyond)?",
    rf"{_AXIS} is not a multiple of (?P<block>\d+){_FROM}",
    rf"{_AXIS} is (?P<part>not a power of two){_FROM}",
    rf"{_AXIS} (?P<part>is a multiple of \d+|is one (?:more|less) than a multiple of \d+|mod \d+ = \d+){_FROM}"))
_RELATION = re.compile(r"(?P<one>[A-Z]v?) (?P<relation>[≠=<>]) (?P<other>[A-Z](?:v|kv)?)(?: (?P<by>[+-] \d+))?")
_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "≠": operator.ne, "=": operator.eq, "<": operator.lt, ">": operator.gt}
_LENGTH = re.compile(r"\b(?P<axis>[A-Z]\w*)=(?P<length>\d+)")
_BEGINNING = re.compile(r"[Ff]ails (?:only )?(?:where|at) (?P<words>(?:(?! \(not in every case\))[^;.])+)")


@dataclass(frozen=True, slots=True)
class Span:
    """A condition on the length of one axis: it fails from `low` on, up to `high` if that is known.

    block: what the failing lengths are no multiples of; 0 where it does not say.  is_open: it fails at `low`, and not
    at every length beyond.
    """

    axis: str
    low: int
    high: int = 0
    block: int = 0
    is_open: bool = False

    @property
    def ends(self) -> int:
        """What the block divides that is behind it: the first length that holds again, or the block that is told."""
        return self.block or (self.high + 1 if self.high else 0)

    @property
    def words(self) -> str:
        """The condition in words: `65 ≤ S ≤ 127`."""
        if self.block:
            return f"{self.axis} > {self.low - 1} and {self.axis} is not a multiple of {self.block}"
        if self.low == self.high:
            return f"{self.axis} = {self.low}"
        beyond = f", though not at every {self.axis} beyond" if self.is_open else ""
        return f"{self.low} ≤ {self.axis} ≤ {self.high}" if self.high else f"{self.axis} ≥ {self.low}{beyond}"


def read_spans_told(begins: str) -> tuple[Span, ...]:
    """The conditions of `Fails where D ≥ 5 and 78 ≤ S ≤ 127; holds at …` that are about the length of one axis."""
    found = _BEGINNING.match(begins)
    parts = re.split(r" and (?!≥)", found["words"]) if found else ()
    return tuple(span for part in parts for span in _read_spans(part))


def is_met(begins: str, case: str) -> bool:
    """Whether the lengths of a case (`… D=3 Dv=4 …`) meet conditions of how lengths compare (`Fails where D ≠ Dv`).

    False where a condition says something else: of one length alone, another bug of the same case may be blind to it.
    """
    found = _BEGINNING.match(begins)
    lengths = {each["axis"]: int(each["length"]) for each in _LENGTH.finditer(case)}
    relations = [_RELATION.fullmatch(part) for part in found["words"].split(" and ")] if found else []
    return bool(relations) and all(each is not None and _compares(each, lengths) for each in relations)


def _compares(relation: re.Match[str], lengths: Mapping[str, int]) -> bool:
    one, other = lengths.get(relation["one"]), lengths.get(relation["other"])
    by = int((relation["by"] or "0").replace(" ", ""))
    return one is not None and other is not None and _RELATIONS[relation["relation"]](one, other + by)


def _read_spans(part: str) -> Iterator[Span]:
    for form in _FORMS:
        if found := form.fullmatch(part):
            told = {"low": "", "high": "", "block": "", "start": "", "open": "", "part": "", **found.groupdict("")}
            if not told["part"]:
                low = int(told["low"] or told["start"] or (int(told["block"] or 0) + 1))
                is_point = " = " in part and not told["open"] and "(= " not in part
                yield Span(told["axis"], low, int(told["high"] or (low if is_point else 0)), int(told["block"] or 0),
                           bool(told["open"]))
            return


def common_spans(begins: Sequence[str]) -> tuple[Span, ...]:
    """What boundaries have in common, by axis; none where no axis of all of them tells one and the same bug."""
    every = [{axis: replace(span, axis=axis) for span in read_spans_told(each) for axis in _moved_axes(span.axis)}
             for each in begins]
    shared = [axis for axis in (every[0] if every else ()) if all(axis in each for each in every)]
    together = {part for axis in shared for part in _moved_axes(axis) if part != axis}
    return tuple(joined for axis in shared if axis not in together
                 and (joined := _join_spans([each[axis] for each in every])))


def _moved_axes(axis: str) -> tuple[str, ...]:
    """The axes whose lengths are moved: `T (= S)` is both, and each of them."""
    one, _, other = axis.rstrip(")").partition(" (= ")
    return (axis, one, other) if other else (axis,)


def _join_spans(found: Sequence[Span]) -> Span | None:
    """One condition for several of an axis: a block that explains all edges, or else ranges that overlap."""
    first, low, is_open = found[0], min(span.low for span in found), any(span.is_open for span in found)
    if all(span == first for span in found):
        return first
    if block := _block(found):
        is_told = any(span.ends for span in found)
        return Span(first.axis, block + 1, block=block) if is_told else Span(first.axis, low, is_open=is_open)
    highs = [span.high for span in found]
    if all(highs) and max(span.low for span in found) <= min(highs):
        return Span(first.axis, low, max(highs))
    return Span(first.axis, low, is_open=True) if all(span.low == low for span in found) else None


def _block(found: Sequence[Span]) -> int:
    """The largest block that the failing lengths exceed and whose multiples end every range; 0 if there is none.

    Where no range has an end, it is the one below all beginnings, each of which has a power of two close below it.
    """
    least = min(span.low for span in found) - 1
    ends = math.gcd(*(span.ends for span in found))
    if not ends:
        ends = math.gcd(*(1 << (span.low - 1).bit_length() - 1 for span in found if span.low > 1))
    return max((n for n in range(SMALLEST, least + 1, EIGHT) if ends % n == 0), default=0)


def suggest_blocks(begins: str) -> Iterator[int]:
    """The lengths of blocks that a boundary suggests, the likelier first, each once: those next to its edges, half and
    a third of them, their powers of two, and double.
    """
    edges = [edge for span in read_spans_told(begins) if span.axis[0] in "TS" for edge in _edges(span)]
    suggested = (*edges, *(edge // 2 for edge in edges), *(edge & -edge for edge in edges),
                 *(edge // 3 for edge in edges if edge % 3 == 0), *(2 * edge for edge in edges))
    yield from dict.fromkeys(size for size in suggested if SMALLEST // 2 <= size <= LARGEST and size % EIGHT == 0)


def _edges(span: Span) -> Iterable[int]:
    """What is a multiple of eight next to where it begins and ends."""
    known = (span.block, span.low - 1, span.high + 1 if span.high else 0)
    return dict.fromkeys(edge for edge in known if edge and edge % EIGHT == 0)
