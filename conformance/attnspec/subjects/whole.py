"""What came back of a call of which nobody knows yet what it returns: the arrays in it, each with its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnspec.host.frames import Entries
from attnspec.problems.problem import Array
from attnspec.subjects.call import array_of

Path = tuple[str, ...]
"""From a tree to a part of it: `["name"]`, `[0]` or `.name` a step."""


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedArray:
    """An array in the tree that a call returned. shape: None where nobody knows.  array: its numbers, of any shape;
    None where it holds none of floating point, or too many.
    """

    path: Path
    type_name: str
    shape: tuple[int, ...] | None
    array: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedTree:
    """The tree that a call returned: its type, and its arrays. What is neither an array nor holds any is left out."""

    type_name: str
    parts: tuple[ReturnedArray, ...]


def whole_of(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedTree:
    """As a host tells it. Raises what reading something else may raise."""
    return ReturnedTree(str(told["type"]), tuple(_part(each, found) for each in told["parts"]))


def _part(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedArray:
    shape = None if told["shape"] is None else tuple(map(int, told["shape"]))
    array = array_of(found[int(told["array"])]) if "array" in told else None
    return ReturnedArray(tuple(map(str, told["path"])), str(told["type"]), shape, array)
