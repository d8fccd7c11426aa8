"""What the sizes of a run are aimed at: every pair of buckets of two axes, and what attention is used at.

Faults of kernels that are made for one use, such as the decoding of grouped heads, need more than two axes together,
and more triples of buckets exist than a run has cases. Those of these uses are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

from attnspec.core.coverage import BUCKETS, BucketPair, bounds, every_pair
from attnspec.problems.axes import STANDARD_WIDTHS

Span = tuple[str, tuple[int, int]]
"""An axis with the least and the greatest length that it may have."""

Aim = tuple[Span, ...]
"""Lengths of two axes or more that one case is to have together."""

_LONG = 65  # keys: the first bucket in which a kernel has more than one block of the usual sizes


@cache
def all_aims() -> tuple[Aim, ...]:
    """Every pair of two axes, and every use; keywords are dealt for themselves."""
    return (*map(aim_at, pairs_of_axes()), *_uses())


@cache
def pairs_of_axes() -> tuple[BucketPair, ...]:
    """Every pair of two axes."""
    return tuple(pair for pair in every_pair() if len(pair.places) == 2)


def aim_at(pair: BucketPair) -> Aim:
    """Any lengths in the buckets of a pair."""
    return tuple((axis, bounds(axis, bucket)) for axis, bucket in pair.places)


def is_met(aim: Aim, lengths: Mapping[str, int]) -> bool:
    """Whether a case with these lengths (of all axes) is what was aimed at."""
    for axis, (least, most) in aim:  # noqa: SIM110  (asked 100,000 times a run; `all` takes three times as long)
        if not least <= lengths[axis] <= most:
            return False
    return True


def _uses() -> Iterator[Aim]:
    """At many keys: decoding (one query) with groups and with batches, and every width of a model; several groups there
    and at many queries.
    """
    keys, queries, one_query = _above("S", _LONG), _above("T", _LONG), ("T", (1, 1))
    yield from ((one_query, span, other) for span, other in product(keys, (*_above("G", 2), *_above("B", 2))))
    yield from ((span, group, heads) for span, group, heads in product(keys + queries, _above("G", 2), _above("H", 9))
                if heads[1][0] >= 2 * group[1][1])
    yield from ((span, ("D", (width, width))) for span, width in product(keys, STANDARD_WIDTHS))


def _spans(axis: str) -> Iterator[Span]:
    return ((axis, bounds(axis, bucket)) for bucket in range(len(BUCKETS[axis])))


def _above(axis: str, least: int) -> tuple[Span, ...]:
    return tuple(span for span in _spans(axis) if span[1][0] >= least)
