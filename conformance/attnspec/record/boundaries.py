"""Reads sentences about where failures begin, and checks them against the cases of a run.

It tells whether two such sentences may be of the same bug, and which block would explain them. A
bug whose effect depends on the entries begins and ends at other sizes in every case; its edges
share the block behind it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

SMALLEST_BLOCK = 16
"""Keys of the smallest block that is told from edges: below it, too many numbers are multiples."""
BLOCK_UNIT = 8  # every block is a multiple of it
LARGEST_BLOCK = 1024
"""Keys of the largest block that is suggested."""

_AXIS = r"(?P<axis>[A-Z]v?(?: \(= [A-Z]v?\))?)"
_FROM = r"(?: and ≥ (?P<start>\d+))?"
_FORMS = tuple(re.compile(form) for form in (
    rf"(?:(?P<low>\d+) ≤ )?{_AXIS} ≤ (?P<high>\d+)", rf"{_AXIS} ≥ (?P<low>\d+)",
    rf"{_AXIS} = (?P<low>\d+)(?P<open>, though not at every \S+(?: \(= \S+\))? beyond)?",
    rf"{_AXIS} is not a multiple of (?P<block>\d+){_FROM}",
    rf"{_AXIS} is (?P<part>not a power of two){_FROM}",
    rf"{_AXIS} (?P<part>is a multiple of \d+|is one (?:more|less) than a multiple of \d+|mod \d+ = \d+){_FROM}"))
_RELATION = re.compile(r"[A-Z]v? [≠=<>] [A-Z](?:v|kv)?(?: [+-] \d+)?")
"""A condition of how two lengths compare: `Dv ≠ D`, `S < T + 2`."""
_LENGTH = re.compile(r"\b(?P<axis>[A-Z]\w*)=(?P<length>\d+)")
_BEGINNING = re.compile(r"[Ff]ails (?:only )?(?:where|at) (?P<words>(?:(?! \(not in every case\))[^;.])+)")


@dataclass(frozen=True, slots=True)
class Span:
    """A condition on the length of one axis: it fails from `low` on, up to `high` if it is known.

    block: failing lengths are no multiples of it; 0 if the condition does not say so.  is_open:
    whether it fails at `low`, but not at every length beyond.
    """

    axis: str
    low: int
    high: int = 0
    block: int = 0
    is_open: bool = False

    @property
    def ends(self) -> int:
        """What its block divides: the first length that holds again, or the named block."""
        return self.block or (self.high + 1 if self.high else 0)

    @property
    def words(self) -> str:
        """The condition in words: `65 ≤ S ≤ 127`."""
        if self.block:
            return f"{self.axis} > {self.low - 1} and {self.axis} is not a multiple of {self.block}"
        if self.low == self.high:
            return f"{self.axis} = {self.low}"
        beyond = f", though not at every {self.axis} beyond" if self.is_open else ""
        if self.high:
            return f"{self.low} ≤ {self.axis} ≤ {self.high}"
        return f"{self.axis} ≥ {self.low}{beyond}"


def read_spans_told(begins: str) -> tuple[Span, ...]:
    """Reads the conditions on one axis in `Fails where D ≥ 5 and 78 ≤ S ≤ 127; holds at …`."""
    found = _BEGINNING.match(begins)
    parts = re.split(r" and (?!≥)", found["words"]) if found else ()
    return tuple(span for part in parts for span in _read_spans(part))


def is_met(begins: str, case: str) -> bool:
    """Whether a case (`… D=3 Dv=4 …`) meets conditions that compare lengths (`… where D ≠ Dv`).
    Any other condition is not met: another bug of the same case may not depend on it.
    """
    found = _BEGINNING.match(begins)
    if found is None:
        return False
    lengths = {each["axis"]: int(each["length"]) for each in _LENGTH.finditer(case)}
    return all(_RELATION.fullmatch(part) and _meets(part, lengths)
               for part in found["words"].split(" and "))


def _read_spans(part: str) -> Iterator[Span]:
    for form in _FORMS:
        if found := form.fullmatch(part):
            words = dict.fromkeys(("low", "high", "block", "start", "open", "part"), "")
            words |= found.groupdict("")
            if not words["part"]:
                block, is_open = int(words["block"] or 0), bool(words["open"])
                low = int(words["low"] or words["start"] or block + 1)
                high = int(words["high"] or 0)
                if " = " in part and not is_open and "(= " not in part:
                    high = low  # a single length
                yield Span(words["axis"], low, high, block, is_open)
            return


def common_spans(begins: Sequence[str]) -> tuple[Span, ...]:
    """What several boundaries have in common, by axis; nothing if they may be of several bugs."""
    every = [{axis: replace(span, axis=axis)
              for span in read_spans_told(each) for axis in _moved_axes(span.axis)}
             for each in begins]
    shared = [axis for axis in (every[0] if every else ()) if all(axis in each for each in every)]
    # `T (= S)` stands for both of its axes
    contained = {part for axis in shared for part in _moved_axes(axis) if part != axis}
    spans = (_join_spans([each[axis] for each in every]) for axis in shared if axis not in contained)
    return tuple(filter(None, spans))


def _moved_axes(axis: str) -> tuple[str, ...]:
    """The axes of a condition: of `T (= S)`, both together and each alone."""
    one, _, other = axis.rstrip(")").partition(" (= ")
    return (axis, one, other) if other else (axis,)


def _join_spans(spans: Sequence[Span]) -> Span | None:
    """Makes one condition of several on an axis: a block behind all edges, or a common range."""
    first, lows, highs = spans[0], [span.low for span in spans], [span.high for span in spans]
    if all(span == first for span in spans):
        return first
    block = _largest_block(spans)
    if block and any(span.ends for span in spans):
        return Span(first.axis, block + 1, block=block)
    if block:
        return Span(first.axis, min(lows), is_open=any(span.is_open for span in spans))
    if all(highs) and max(lows) <= min(highs):
        return Span(first.axis, min(lows), max(highs))
    if min(lows) == max(lows):
        return Span(first.axis, min(lows), is_open=True)
    return None


def _largest_block(spans: Sequence[Span]) -> int:
    """The largest block that the lengths exceed and whose multiples end every range; 0 if none. If
    no range has an end, it is taken from the powers of two just below the beginnings.
    """
    least = min(span.low for span in spans) - 1
    ends = math.gcd(*(span.ends for span in spans))
    if not ends:
        ends = math.gcd(*(1 << (span.low - 1).bit_length() - 1 for span in spans if span.low > 1))
    blocks = (n for n in range(SMALLEST_BLOCK, least + 1, BLOCK_UNIT) if ends % n == 0)
    return max(blocks, default=0)


def suggest_blocks(begins: str) -> Iterator[int]:
    """The lengths of blocks that a boundary suggests, the likelier first. They are next to its
    edges, half and a third of these, their powers of two, and twice their size.
    """
    edges = [edge for span in read_spans_told(begins) if span.axis[0] in "TS"
             for edge in _edges(span)]
    sizes = (*edges, *(edge // 2 for edge in edges), *(edge & -edge for edge in edges),
             *(edge // 3 for edge in edges if edge % 3 == 0), *(2 * edge for edge in edges))
    for size in dict.fromkeys(sizes):
        if SMALLEST_BLOCK // 2 <= size <= LARGEST_BLOCK and size % BLOCK_UNIT == 0:
            yield size


def _edges(span: Span) -> Iterable[int]:
    """Lists the multiples of eight next to where a span begins and ends."""
    edges = (span.block, span.low - 1, span.high + 1 if span.high else 0)
    return dict.fromkeys(edge for edge in edges if edge and edge % BLOCK_UNIT == 0)


_SIZE = r"[A-Z][a-z]*"
_RECIPE_SIZE = re.compile(r"(B|Hkv|H|T|S|Dv|D)(\d+)")
_SIZE_COMPARISON = re.compile(r"(?P<low>\d+ ≤ )?(?P<left>.+?) (?P<sign>[≥≤=≠<>]) (?P<right>.+)")
_QUANTITY = re.compile(rf"(?P<one>{_SIZE})(?:(?P<by>[·/])(?P<other>{_SIZE}))?(?: \(= {_SIZE}\))?(?P<plus> [+-] \d+)?")
_EQUAL = re.compile(rf"(?P<one>{_SIZE}) \(= (?P<other>{_SIZE})\)")
_OF_BLOCKS = re.compile(r"(?P<left>.+?) is (?P<rule>.+?)(?: and ≥ (?P<start>\d+))?")
_MULTIPLE = re.compile(r"(?P<no>not )?a multiple of (?P<n>\d+)")
_REST = re.compile(r"one (?P<by>more|less) than a multiple of (?P<n>\d+)")
_MODULO = re.compile(r"(?P<left>.+?) mod (?P<n>\d+) = (?P<rest>\d+)(?: and ≥ (?P<start>\d+))?")
_BEYOND = re.compile(r"= (?P<n>\d+), though not at every .+? beyond")
_TOLD_CONDITIONS = re.compile(r"[Ff]ails (?P<only>only )?where (?P<words>[^;.,(]+(?:\(= \w+\)[^;.,(]*)*)")
_SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    "≥": operator.ge, "≤": operator.le, "=": operator.eq, "≠": operator.ne, "<": operator.lt,
    ">": operator.gt}

Lengths = Mapping[str, int]
Calls = Sequence[Lengths]
"""The calls that a clause makes of a case, by their lengths: some are shorter than the case."""


class ConditionStanding(Enum):
    """How far other cases support a condition: it decides, is needed, or is wrong."""

    DECIDES = "decides"
    IS_NEEDED = "is needed"
    CONTRADICTED = "contradicted"


def lengths_in(recipe: str) -> Lengths:
    """The length of each axis, by the recipe's text: `B1,H2,Hkv2,T3,…;…`."""
    return {axis: int(length) for axis, length in _RECIPE_SIZE.findall(recipe.partition(";")[0])}


def keywords_in(recipe: str) -> frozenset[str]:
    """The keywords of a recipe's text."""
    fields = dict(part.partition("=")[::2] for part in recipe.split(";")[1:])
    keywords = set(filter(None, fields.get("with", "").split("+")))
    if fields.get("mask", "none") != "none":
        keywords.add("mask")
    return frozenset(keywords)


def parts_of(begins: str) -> tuple[str, ...]:
    """The conditions of `Fails where D ≥ 5 and 78 ≤ S ≤ 127; holds at …`, one by one.

    What fails at a length, though not at every length beyond, needs at least that length. `Fails
    at` claims nothing of other sizes.
    """
    found = _TOLD_CONDITIONS.match(_BEYOND.sub(r"≥ \g<n>", begins))
    if found:
        return tuple(part.strip() for part in re.split(r" and (?!≥)", found["words"]))
    return ()


def meets_condition(condition: str, lengths: Lengths) -> bool | None:
    """Whether sizes meet one condition; None if it cannot be read, or an axis has no length here.
    `T (= S) ≥ 9` is about equal lengths: other cases with a longer T may fail or hold.
    """
    is_met = _meets(condition, lengths)
    equal = _EQUAL.search(condition)
    if is_met and equal and lengths.get(equal["one"]) != lengths.get(equal["other"]):
        return None
    return is_met


def _meets(condition: str, lengths: Lengths) -> bool | None:
    if found := _MODULO.fullmatch(condition):
        value = _value_at(found["left"], lengths)
        fits = value is not None and value % int(found["n"]) == int(found["rest"])
        return _fits_from(found, value, fits)
    if found := _OF_BLOCKS.fullmatch(condition):
        value = _value_at(found["left"], lengths)
        return _fits_from(found, value, _fits_rule(found["rule"], value or 0))
    if found := _SIZE_COMPARISON.fullmatch(condition):
        left, right = (_value_at(found[side], lengths) for side in ("left", "right"))
        if left is None or right is None:
            return None
        least = int((found["low"] or "1").partition(" ")[0])
        return _SIGNS[found["sign"]](left, right) and left >= least
    return None


def _fits_from(found: re.Match[str], value: int | None, fits: bool | None) -> bool | None:
    """Whether a value that fits is as large as the condition asks; None if it is unknown."""
    if fits is None or value is None:
        return None
    return fits and value >= int(found["start"] or 1)


def _fits_rule(rule: str, value: int) -> bool | None:
    if rule == "not a power of two":
        return value.bit_count() != 1
    if found := _MULTIPLE.fullmatch(rule):
        return (value % int(found["n"]) == 0) is not bool(found["no"])
    if found := _REST.fullmatch(rule):
        multiple = value - 1 if found["by"] == "more" else value + 1
        return multiple % int(found["n"]) == 0
    return None


def _value_at(words: str, lengths: Lengths) -> int | None:
    """`65`, `S`, `T (= S)`, `B·H`, `H/Hkv`, `Dv + 2` at these sizes."""
    if words.isdigit():
        return int(words)
    found = _QUANTITY.fullmatch(words)
    if found is None:
        return None
    one, other = lengths.get(found["one"]), lengths.get(found["other"]) if found["other"] else 1
    if one is None or other is None:
        return None
    value = one // other if found["by"] == "/" else one * other
    return value + int((found["plus"] or "0").replace(" ", ""))


def is_needed(condition: str, failing: Iterable[Lengths]) -> bool:
    """Whether every case that fails meets a condition, as far as it can be read."""
    return all(meets_condition(condition, lengths) is not False for lengths in failing)


def condition_standing(begins: str, failing: Iterable[Lengths],
                       passing: Iterable[Lengths]) -> ConditionStanding:
    """How far the cases of a run support a sentence about where a failure begins."""
    parts = parts_of(begins)
    if not all(is_needed(part, failing) for part in parts):
        return ConditionStanding.CONTRADICTED
    is_met = any(all(meets_condition(part, lengths) for part in parts) for lengths in passing)
    if parts and is_met:
        return ConditionStanding.IS_NEEDED
    return ConditionStanding.DECIDES


def conditions_needed_alone(begins: str, failing: Iterable[Calls]) -> str:
    """The conditions that a call of every failing case meets: `fails where S ≥ 65`, or nothing."""
    cases = tuple(failing)
    left = [part for part in parts_of(begins)
            if all(any(meets_condition(part, lengths) is not False for lengths in calls)
                   for calls in cases)]
    found = _TOLD_CONDITIONS.match(begins)
    if left and found:
        return f"fails {found['only'] or ''}where {' and '.join(left)}"
    return ""


def weaken_boundary(begins: str) -> str:
    """`Fails only where S ≥ 65 (not in every case); holds at S = 64.`: some cases there hold."""
    first, semicolon, rest = begins.partition(";")
    if not first.startswith("Fails where "):
        return begins
    condition = first.removeprefix("Fails where ").rstrip(".")
    return f"Fails only where {condition} (not in every case){semicolon}{rest}"
