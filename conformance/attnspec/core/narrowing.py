"""Limits with one more refusal. What a limit of its own says is that limit: sizes are drawn within it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from attnspec.core.declaration import Limits
from attnspec.core.refusal import Refusal

_SAYS: Mapping[tuple[str, ...], tuple[str, Any]] = {
    ("T ≠ S", "S ≠ T"): ("lengths", "equal"),
    ("T > S", "S < T"): ("lengths", "no_more_queries"),
    ("causal with T ≠ S", "causal with S ≠ T"): ("causal_lengths", "equal"),
    ("causal with T > S", "causal with S < T"): ("causal_lengths", "no_more_queries"),
    ("Dv ≠ D", "D ≠ Dv"): ("ties_value_width", True),
    ("G > 1", "G ≠ 1", "Hkv < H", "H > Hkv", "Hkv ≠ H", "H ≠ Hkv"): ("grouped", False),
}
"""By the ways to write a refusal, the limit that says the same, and its value."""


def narrowed_by(limits: Limits, refusals: Iterable[Refusal]) -> Limits:
    """The limits with these refusals among them."""
    return reduce(_narrowed, refusals, limits)


def limits_saying(refused: Collection[str]) -> frozenset[str]:
    """The names of the limits that say one of these refusals, as they are written."""
    return frozenset(name for ways, (name, _) in _SAYS.items() if not {*ways}.isdisjoint(refused))


def _narrowed(limits: Limits, refusal: Refusal) -> Limits:
    said: dict[str, Any] = {name: value for ways, (name, value) in _SAYS.items() if str(refusal) in ways}
    if said and all(getattr(limits, name) == getattr(Limits(), name) for name in said):
        return replace(limits, **said)
    return limits if refusal in limits.refuses else replace(limits, refuses=(*limits.refuses, refusal))
