"""What is said of where failures begin, read back: conditions on axes, whether two may be of one bug, which block; and
whether the cases of a run contradict it: it is told only where none does.

A bug whose effect hangs on the entries is seen to begin at another size in every case, and to end there, too: its edges
have in common the block behind it.
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
        if self.high:
            return f"{self.low} ≤ {self.axis} ≤ {self.high}"
        return f"{self.axis} ≥ {self.low}{beyond}"


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
    parts = found["words"].split(" and ") if found else []
    return (bool(parts) and all(bool(_RELATION.fullmatch(part)) and _meets(part, lengths) is True
                                for part in parts))


def _read_spans(part: str) -> Iterator[Span]:
    for form in _FORMS:
        if found := form.fullmatch(part):
            told = {"low": "", "high": "", "block": "", "start": "", "open": "", "part": "",
                    **found.groupdict("")}
            if not told["part"]:
                low = int(told["low"] or told["start"] or (int(told["block"] or 0) + 1))
                is_point = " = " in part and not told["open"] and "(= " not in part
                yield Span(told["axis"], low, int(told["high"] or (low if is_point else 0)),
                           int(told["block"] or 0),
                           bool(told["open"]))
            return


def common_spans(begins: Sequence[str]) -> tuple[Span, ...]:
    """What boundaries have in common, by axis; none where no axis of all of them tells one and the same bug."""
    every = [{axis: replace(span, axis=axis) for span in read_spans_told(each)
              for axis in _moved_axes(span.axis)}
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
    """Makes one condition of several on an axis: a block that explains all edges, or ranges that overlap."""
    first, low, is_open = found[0], min(span.low for span in found), any(span.is_open
                                                                         for span in found)
    if all(span == first for span in found):
        return first
    if block := _largest_block(found):
        is_told = any(span.ends for span in found)
        if is_told:
            return Span(first.axis, block + 1, block=block)
        return Span(first.axis, low, is_open=is_open)
    highs = [span.high for span in found]
    if all(highs) and max(span.low for span in found) <= min(highs):
        return Span(first.axis, low, max(highs))
    if all(span.low == low for span in found):
        return Span(first.axis, low, is_open=True)
    return None


def _largest_block(found: Sequence[Span]) -> int:
    """The largest block that the failing lengths exceed and whose multiples end every range; 0 if there is none.

    Where no range has an end, it is the one below all beginnings, each of which has a power of two close below it.
    """
    least = min(span.low for span in found) - 1
    ends = math.gcd(*(span.ends for span in found))
    if not ends:
        ends = math.gcd(*(1 << (span.low - 1).bit_length() - 1 for span in found if span.low > 1))
    return max((n for n in range(SMALLEST_BLOCK, least + 1, BLOCK_UNIT) if ends % n == 0),
               default=0)


def suggest_blocks(begins: str) -> Iterator[int]:
    """The lengths of blocks that a boundary suggests, the likelier first, each once: those next to its edges, half and
    a third of them, their powers of two, and double.
    """
    edges = [edge for span in read_spans_told(begins) if span.axis[0] in "TS"
             for edge in _edges(span)]
    suggested = (*edges, *(edge // 2 for edge in edges), *(edge & -edge for edge in edges),
                 *(edge // 3 for edge in edges if edge % 3 == 0), *(2 * edge for edge in edges))
    yield from dict.fromkeys(size
                             for size in suggested if SMALLEST_BLOCK // 2 <= size <= LARGEST_BLOCK
                             and size % BLOCK_UNIT == 0)


def _edges(span: Span) -> Iterable[int]:
    """Lists the multiples of eight next to where a span begins and ends."""
    known = (span.block, span.low - 1, span.high + 1 if span.high else 0)
    return dict.fromkeys(edge for edge in known if edge and edge % BLOCK_UNIT == 0)


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
"""The calls that a clause makes of a case, each by the lengths of its axes: some are cut shorter than the case is."""


class ConditionStanding(Enum):
    """How far other cases bear out a condition: it decides; it is needed, but not enough; it is not even needed."""

    DECIDES = "decides"
    IS_NEEDED = "is needed"
    CONTRADICTED = "contradicted"


def lengths_in(recipe: str) -> Lengths:
    """The length of each axis, by the recipe's text: `B1,H2,Hkv2,T3,…;…`."""
    return {axis: int(length) for axis, length in _RECIPE_SIZE.findall(recipe.partition(";")[0])}


def keywords_in(recipe: str) -> frozenset[str]:
    """Reads from a recipe's text what is given beside query, key and value."""
    named = dict(part.partition("=")[::2] for part in recipe.split(";")[1:])
    given = frozenset(filter(None, named.get("with", "").split("+")))
    return given | ({"mask"} if named.get("mask", "none") != "none" else frozenset())


def parts_of(begins: str) -> tuple[str, ...]:
    """The conditions of `Fails where D ≥ 5 and 78 ≤ S ≤ 127; holds at …`, one by one.

    What fails at a length, though not at every one beyond, needs that length. `Fails at` claims nothing of other sizes.
    """
    found = _TOLD_CONDITIONS.match(_BEYOND.sub(r"≥ \g<n>", begins))
    if found:
        return tuple(part.strip() for part in re.split(r" and (?!≥)", found["words"]))
    return ()


def meets_condition(condition: str, lengths: Lengths) -> bool | None:
    """Whether sizes meet one condition; None where it cannot be read, or is about an axis that has no length here.

    `T (= S) ≥ 9` is about sizes of which both are equal: others with a longer T may fail, or hold.
    """
    equal = _EQUAL.search(condition)
    is_elsewhere = equal is not None and lengths.get(equal["one"]) != lengths.get(equal["other"])
    is_met = _meets(condition, lengths)
    return None if is_met and is_elsewhere else is_met


def _meets(condition: str, lengths: Lengths) -> bool | None:
    if found := _MODULO.fullmatch(condition):
        value = _value_at(found["left"], lengths)
        fits = None if value is None else value % int(found["n"]) == int(found["rest"])
        return _fits_from(found, value, fits)
    if found := _OF_BLOCKS.fullmatch(condition):
        value = _value_at(found["left"], lengths)
        fits = None if value is None else _fits_rule(found["rule"], value)
        return _fits_from(found, value, fits)
    if found := _SIZE_COMPARISON.fullmatch(condition):
        left, right = (_value_at(found[side], lengths) for side in ("left", "right"))
        if left is None or right is None:
            return None
        least = int((found["low"] or "1").partition(" ")[0])
        return _SIGNS[found["sign"]](left, right) and left >= least
    return None


def _fits_from(found: re.Match[str], value: int | None, fits: bool | None) -> bool | None:
    """Whether a value that fits is as large as the condition asks; None where nobody knows."""
    return None if fits is None or value is None else fits and value >= int(found["start"] or 1)


def _fits_rule(rule: str, value: int) -> bool | None:
    if rule == "not a power of two":
        return value.bit_count() != 1
    if found := _MULTIPLE.fullmatch(rule):
        return (value % int(found["n"]) == 0) is not bool(found["no"])
    if found := _REST.fullmatch(rule):
        return (value + (-1 if found["by"] == "more" else 1)) % int(found["n"]) == 0
    return None


def _value_at(words: str, lengths: Lengths) -> int | None:
    """`65`, `S`, `T (= S)`, `B·H`, `H/Hkv`, `Dv + 2` at these sizes."""
    if words.isdigit():
        return int(words)
    found = _QUANTITY.fullmatch(words)
    if found is None:
        return None
    named = [lengths.get(name) for name in (found["one"], found["other"]) if name]
    if any(each is None for each in named):
        return None
    one, *others = (each for each in named if each is not None)
    whole = one // math.prod(others) if found["by"] == "/" else one * math.prod(others)
    return whole + int((found["plus"] or "0").replace(" ", ""))


def is_needed(condition: str, failing: Iterable[Lengths]) -> bool:
    """Whether every case that fails meets a condition, as far as it can be read."""
    return all(meets_condition(condition, lengths) is not False for lengths in failing)


def condition_standing(begins: str, failing: Iterable[Lengths],
                       passing: Iterable[Lengths]) -> ConditionStanding:
    """What the cases of a run make of all that is told of where a failure begins."""
    parts = parts_of(begins)
    if not all(is_needed(part, failing) for part in parts):
        return ConditionStanding.CONTRADICTED
    is_met = any(all(meets_condition(part, lengths) for part in parts) for lengths in passing)
    if parts and is_met:
        return ConditionStanding.IS_NEEDED
    return ConditionStanding.DECIDES


def conditions_needed_alone(begins: str, failing: Iterable[Calls]) -> str:
    """The conditions that a call of every failing case meets, as a clause: `fails where S ≥ 65`; empty where none is
    left.
    """
    known = tuple(failing)
    left = [part for part in parts_of(begins)
            if all(any(meets_condition(part, lengths) is not False for lengths in calls)
                   for calls in known)]
    found = _TOLD_CONDITIONS.match(begins)
    if left and found:
        return f"fails {found['only'] or ''}where {' and '.join(left)}"
    return ""


def weaken_boundary(begins: str) -> str:
    """A boundary that some cases meet and hold: `Fails only where S ≥ 65 (not in every case); holds at S = 64.`"""
    first, semicolon, rest = begins.partition(";")
    if not first.startswith("Fails where "):
        return begins
    return (f"Fails only where {first.removeprefix('Fails where ').rstrip('.')} (not in every "
            f"case){semicolon}{rest}")
