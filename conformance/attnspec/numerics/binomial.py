"""The exact binomial test: how far a count of independent events may be from what is expected, at a rate of alarms."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from attnspec.problems.problem import Array


@lru_cache(maxsize=1024)
def limits(trials: int, chance: float, false_alarm: float) -> tuple[int, int]:
    """The least and the greatest count of so many independent trials, each with this chance, that raise no alarm.

    The probability of a lower count is at most half of the rate, and that of a higher one, too: both tails are summed,
    not approximated.
    """
    if chance in (0.0, 1.0):
        return (0, 0) if chance == 0 else (trials, trials)
    low = _least(_logarithms(trials, chance), false_alarm / 2)
    return low, trials - _least(_logarithms(trials, 1 - chance), false_alarm / 2)


def _logarithms(trials: int, chance: float) -> Array:
    """(trials + 1,): the logarithm of the probability of each count."""
    counts = np.arange(1, trials + 1, dtype=float)
    ratios = np.log(trials + 1 - counts) - np.log(counts) + math.log(chance) - math.log1p(-chance)
    return np.concatenate([[0.0], np.cumsum(ratios)]) + trials * math.log1p(-chance)


def _least(logarithms: Array, tail: float) -> int:
    """The least count up to which there is more than this probability."""
    below = np.logaddexp.accumulate(logarithms)
    return int(np.searchsorted(below, math.log(tail), side="right"))
