"""Which tests are for the night: what repeats another test at a further fault, dtype or library.

The short suite is what `pytest` runs by itself, and `pytest -m nightly` runs the rest (docs/tests.md). A test that is
for the night as a whole is marked `nightly`. A family, which is one test with many cases, is marked `family(3)`: three
of its cases stay in the short suite. `family(1, each="clause")` keeps one case of each value of the parameter `clause`.
A case that is marked `nightly` itself, since it is dear, never stays.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import pytest


def leave_for_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of families that the short suite does without."""
    for cases, keep in _families(items):
        for case in sorted(cases, key=_place)[keep:]:
            case.add_marker(pytest.mark.nightly)


def _families(items: Iterable[pytest.Item]) -> Iterable[tuple[list[pytest.Item], int]]:
    """The cases that stand for one another, and how many of them stay."""
    found: defaultdict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    keeps = {}
    for item in items:
        if (marker := item.get_closest_marker("family")) and not item.get_closest_marker("nightly"):
            family = item.nodeid.partition("[")[0], str(_value(item, marker.kwargs.get("each")))
            found[family].append(item)
            keeps[family] = int(marker.args[0])
    return [(cases, keeps[family]) for family, cases in found.items()]


def _value(item: pytest.Item, parameter: str | None) -> object:
    assert isinstance(item, pytest.Function)
    return item.callspec.params[parameter] if parameter else None


def _place(item: pytest.Item) -> str:
    """A place in the family that depends on the name alone: a new case moves no other one."""
    return hashlib.sha256(item.name.encode()).hexdigest()
