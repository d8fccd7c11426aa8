"""What it costs to meet an aim, which demands can meet it, and how aims are put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.problems.aims import Aim, all_aims
from attnspec.problems.demand import Demand, work_of
from attnspec.problems.fitting import shortest
from attnspec.problems.problem import Array

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
