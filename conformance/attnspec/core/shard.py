"""A share of a run: so many runs divide its jobs, each subject at a dtype as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from attnspec.core.errors import UsageError

K = TypeVar("K")

MOST_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Which of how many, counted from 1. As a text `2/5`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def read_shard(text: str) -> Shard:
    """The shard of a text. Raises UsageError for what is none."""
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if not found:
        raise UsageError(f"{text!r} is no shard. The second of five is 2/5.")
    shard = Shard(int(found[1]), int(found[2]))
    if not 1 <= shard.index <= shard.count <= MOST_SHARDS:
        raise UsageError(f"there is no shard {text}. Shards are counted from 1, as 2/5, and there are at most "
                         f"{MOST_SHARDS:,}.")
    return shard


def deal_shards(costs: Mapping[K, float], count: int) -> tuple[tuple[K, ...], ...]:
    """Deals jobs to so many shards: the dearest first, each to the shard that has the least to do.

    Of equal costs the first in the mapping's order comes first, so that every shard works out the same.
    """
    shares: tuple[list[K], ...] = tuple([] for _ in range(count))
    spent = [0.0] * count
    for key in sorted(costs, key=lambda key: -costs[key]):
        least = spent.index(min(spent))
        shares[least].append(key)
        spent[least] += costs[key]
    return tuple(map(tuple, shares))
