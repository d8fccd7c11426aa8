"""Whether the cases of a run contradict a condition on sizes that is told: it is told only where none does."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

_SIZE = r"[A-Z][a-z]*"
_RECIPE_SIZE = re.compile(r"(B|Hkv|H|T|S|Dv|D)(\d+)")
_COMPARISON = re.compile(r"(?P<low>\d+ ≤ )?(?P<left>.+?) (?P<sign>[≥≤=≠<>]) (?P<right>.+)")
_QUANTITY = re.compile(rf"(?P<one>{_SIZE})(?:(?P<by>[·/])(?P<other>{_SIZE}))?(?: \(= {_SIZE}\))?(?P<plus> [+-] \d+)?")
_EQUAL = re.compile(rf"(?P<one>{_SIZE}) \(= (?P<other>{_SIZE})\)")
_OF_BLOCKS = re.compile(r"(?P<left>.+?) is (?P<rule>.+?)(?: and ≥ (?P<start>\d+))?")
_MULTIPLE = re.compile(r"(?P<no>not )?a multiple of (?P<n>\d+)")
_REST = re.compile(r"one (?P<by>more|less) than a multiple of (?P<n>\d+)")
_MODULO = re.compile(r"(?P<left>.+?) mod (?P<n>\d+) = (?P<rest>\d+)(?: and ≥ (?P<start>\d+))?")
_BEYOND = re.compile(r"= (?P<n>\d+), though not at every .+? beyond")
_BEGINNING = re.compile(r"[Ff]ails (?P<only>only )?where (?P<words>[^;.,(]+(?:\(= \w+\)[^;.,(]*)*)")
_SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    "≥": operator.ge, "≤": operator.le, "=": operator.eq, "≠": operator.ne, "<": operator.lt, ">": operator.gt}

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
    """What a recipe's text says is given beside query, key and value."""
    named = dict(part.partition("=")[::2] for part in recipe.split(";")[1:])
    given = frozenset(filter(None, named.get("with", "").split("+")))
    return given | ({"mask"} if named.get("mask", "none") != "none" else frozenset())


def parts_of(begins: str) -> tuple[str, ...]:
    """The conditions of `Fails where D ≥ 5 and 78 ≤ S ≤ 127; holds at …`, one by one.

    What fails at a length, though not at every one beyond, needs that length. `Fails at` claims nothing of other sizes.
    """
    found = _BEGINNING.match(_BEYOND.sub(r"≥ \g<n>", begins))
    return tuple(part.strip() for part in re.split(r" and (?!≥)", found["words"])) if found else ()


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
        value = _value(found["left"], lengths)
        return None if value is None else (value % int(found["n"]) == int(found["rest"])
                                           and value >= int(found["start"] or 1))
    if found := _OF_BLOCKS.fullmatch(condition):
        value = _value(found["left"], lengths)
        fits = None if value is None else _fits(found["rule"], value)
        return fits if fits is None or value is None else fits and value >= int(found["start"] or 1)
    if found := _COMPARISON.fullmatch(condition):
        left, right = (_value(found[side], lengths) for side in ("left", "right"))
        if left is None or right is None:
            return None
        least = int((found["low"] or "1").partition(" ")[0])
        return _SIGNS[found["sign"]](left, right) and left >= least
    return None


def _fits(rule: str, value: int) -> bool | None:
    if rule == "not a power of two":
        return value.bit_count() != 1
    if found := _MULTIPLE.fullmatch(rule):
        return (value % int(found["n"]) == 0) is not bool(found["no"])
    if found := _REST.fullmatch(rule):
        return (value + (-1 if found["by"] == "more" else 1)) % int(found["n"]) == 0
    return None


def _value(words: str, lengths: Lengths) -> int | None:
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


def condition_standing(begins: str, failing: Iterable[Lengths], passing: Iterable[Lengths]) -> ConditionStanding:
    """What the cases of a run make of all that is told of where a failure begins."""
    parts = parts_of(begins)
    if not all(is_needed(part, failing) for part in parts):
        return ConditionStanding.CONTRADICTED
    is_met = any(all(meets_condition(part, lengths) for part in parts) for lengths in passing)
    return ConditionStanding.IS_NEEDED if parts and is_met else ConditionStanding.DECIDES


def needed_alone(begins: str, failing: Iterable[Calls]) -> str:
    """The conditions that a call of every failing case meets, as a clause: `fails where S ≥ 65`; empty where none is
    left.
    """
    known = tuple(failing)
    left = [part for part in parts_of(begins)
            if all(any(meets_condition(part, lengths) is not False for lengths in calls) for calls in known)]
    found = _BEGINNING.match(begins)
    return f"fails {found['only'] or ''}where {' and '.join(left)}" if left and found else ""


def weaken_boundary(begins: str) -> str:
    """A boundary that some cases meet and hold: `Fails only where S ≥ 65 (not in every case); holds at S = 64.`"""
    first, semicolon, rest = begins.partition(";")
    if not first.startswith("Fails where "):
        return begins
    return f"Fails only where {first.removeprefix('Fails where ').rstrip('.')} (not in every case){semicolon}{rest}"
