"""The limits say what a function may declare of its codes and scales, and what makes no sense."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from attnspec.aspects.quantised.keyword import QUANTISES
from attnspec.aspects.quantised.storage import (
    GRANULARITIES,
    LAYOUTS,
    PAGED_GRANULARITIES,
    STORAGES,
    ZERO_FORMATS,
    read_granularity,
)
from attnspec.core.keyword import KeywordLimits, LimitChoice

CALLED = "functions of codes"
"""What a report calls functions that take no other numbers."""

ARRAYS = ("query", "key", "value")
_INSIDE_WORDS = frozenset(f"stored_{name}" for name in (*ARRAYS, "weights"))
"""The words of a precision class that say what is stored, as `numerics/precision.py` has them."""

_SHARED = "answer to how many entries share a scale"
_PAGED = (*GRANULARITIES, *PAGED_GRANULARITIES)

CHOICES: Mapping[str, LimitChoice] = {
    **{f"stored_{array}": LimitChoice(tuple(STORAGES), "format of codes", "int8") for array in ARRAYS},
    **{f"{array}_scales": LimitChoice(tuple(GRANULARITIES) if array == "query" else _PAGED, _SHARED, "head",
                                      (f"stored_{array}",), read_granularity) for array in ARRAYS},
    "zeros": LimitChoice(ZERO_FORMATS, "format of zero points", "codes"),
    **{f"packed_{array}": LimitChoice(tuple(LAYOUTS), "layout of nibbles", "low_first", (f"stored_{array}",))
       for array in ARRAYS}}
"""By the limit's name."""


def find_nonsense(limits: KeywordLimits, said: Collection[str]) -> tuple[str, str] | None:
    """Find the limit that makes no sense beside the others, and say what is wrong with it.

    said: the names of the limits that are declared.
    """
    for array in ARRAYS:
        stored, granularity = getattr(limits, f"stored_{array}"), getattr(limits, f"{array}_scales")
        storage = STORAGES.get(stored)
        if f"packed_{array}" in said and (storage is None or not storage.is_nibble):
            nibbles = ", ".join(name for name, each in STORAGES.items() if each.is_nibble)
            rest = f", not {stored}" if stored else ""
            return f"packed_{array}", f"needs stored_{array} to be a format of four bits ({nibbles}){rest}."
        if storage is not None and storage.block and granularity and granularity not in storage.granularities:
            return f"{array}_scales", (
                f"is {granularity}, but {stored} has a scale for each {storage.block} neighbours: "
                f"write {' or '.join(storage.granularities)}.")
    return None


def find_lacking(limits: KeywordLimits, taken: Collection[str], name: str) -> str:
    """Say what is wrong where codes of an array are declared, and the function `name` takes no
    scale of them; empty where nothing is. taken: its keywords.
    """
    for array in ARRAYS:
        names = (f"stored_{array}", f"{array}_scales", f"packed_{array}")
        declared = next((limit for limit in names if getattr(limits, limit)), "")
        if declared and f"{array}_scale" not in taken:
            return (f"{declared} declares codes of the {array}, and {name} has no parameter {array}_scale. Add it "
                    f"(None where codes are the numbers), or leave {declared} out.")
    return ""


def find_unsaid(profile: str, words: Collection[str]) -> str:
    """Say why clauses of a profile do not bind who declares these precision words; else empty."""
    if profile == QUANTISES and _INSIDE_WORDS.isdisjoint(words):
        return "it does not say that it quantises what it is given (docs/quantised.md)"
    return ""


def describe_handed(limits: KeywordLimits) -> Iterator[str]:
    """Describe the codes and scales that a function takes, each with the limit that says so."""
    for array in ARRAYS:
        stored, shared = getattr(limits, f"stored_{array}"), getattr(limits, f"{array}_scales")
        if stored:
            yield f"codes of the {array} in {stored} (stored_{array})"
        shape = {**GRANULARITIES, **PAGED_GRANULARITIES}.get(shared, "")
        if shared:
            yield f"its scales by {shared}, {shape} ({array}_scales)"
