"""What the sizes of a run are aimed at: every pair of buckets of two axes, and what attention is used at.

Faults of kernels that are made for one use, such as the decoding of grouped heads, need more than two axes together,
and more triples of buckets exist than a run has cases. Those of these uses are few. What it costs to meet an aim, and
which demands can meet it, is worked out here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import product

import numpy as np

from attnspec.core.coverage import BUCKETS, BucketPair, bounds, every_pair
from attnspec.core.declaration import Limits
from attnspec.problems.axes import STANDARD_WIDTHS
from attnspec.problems.demand import Demand, work_of
from attnspec.problems.fitting import shortest
from attnspec.problems.problem import Array

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


_AT_ONCE = 3        # pairs that a row is aimed at, at most, or as many axes
_ARE_ONE = frozenset({"H", "G"})  # a pair of both pins them together; two pairs would pull H two ways


def work_at(lengths: Mapping[str, int]) -> int:
    """The work of a call with these lengths; an axis that is not named is 1 long."""
    of = lengths.get
    return work_of(of("B", 1), max(of("H", 1), of("G", 1)), of("T", 1), of("S", 1), of("D", 1) + of("Dv", 1))


def _least_work(spans: Mapping[str, tuple[int, int]], limits: Limits) -> int:
    """The work of the cheapest problem within these spans."""
    return work_at(shortest(spans, limits))


@lru_cache(maxsize=16)
def least_works(limits: Limits) -> Array:
    """(aims,) int: the work of the cheapest problem that meets each aim."""
    return np.array([_least_work(dict(aim), limits) for aim in all_aims()], np.int64)


@lru_cache(maxsize=16)
def may_meet(demands: tuple[Demand, ...], limits: Limits) -> Array:
    """(aims, demands) bool: which of the demands can have a problem that meets each aim."""
    found = [demand.meeting(limits) for demand in demands]
    kinds = dict(zip(reversed(found), reversed(demands), strict=True))  # a demand of each kind that may meet the same
    numbers = {kind: number for number, kind in enumerate(kinds)}
    meeting = [[kind.may_meet(dict(aim), limits) for kind in kinds.values()] for aim in all_aims()]
    return np.array(meeting, bool)[:, [numbers[each] for each in found]]


def aims_of(hand: Sequence[Aim], cap: float, limits: Limits) -> Iterator[Aim]:
    """The first aim of a hand that a row may pay for, and further ones of other axes that fit beside it."""
    taken: dict[str, tuple[int, int]] = {}
    for aim in hand:
        wanted = {**taken, **dict(aim)}
        if len(wanted) == len(taken) + len(aim) and not _is_pulled(wanted, aim) and _least_work(wanted, limits) <= cap:
            taken = wanted
            yield aim
        if len(taken) >= 2 * _AT_ONCE:
            return


def _is_pulled(wanted: Mapping[str, tuple[int, int]], aim: Aim) -> bool:
    """Whether H and G are wanted together, though the aim has not both."""
    return wanted.keys() >= _ARE_ONE and not dict(aim).keys() >= _ARE_ONE


def spread_out(hand: Sequence[Aim], count: int) -> list[Aim]:
    """The aims of a hand, the dearest first; of a large one so many evenly before the others."""
    step = max(1, len(hand) // (_AT_ONCE * count))
    return [*hand[::step], *(aim for at, aim in enumerate(hand) if at % step)]
