"""Gaps against allowances: where the worst entry is, and by how much it misses."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array
from attnspec.record.outcome import Measured


def measure(relation: str, seen: Array, expected: Array, allowance: Array | float, claimed: Array,
            *, what: str) -> Measured:
    """Entries that should be `expected` within `allowance` wherever a claim is made.

    An entry that is not finite where a finite one is expected is infinitely wrong; 0 against 0 allowed is right. An
    allowance that is not a number allows nothing.
    """
    seen, expected, allowance, claimed = np.broadcast_arrays(seen, expected, np.asarray(allowance), claimed)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.abs(seen - expected)
        margin = gap / allowance
    if not (margin < np.inf).all():  # something is not finite, or nothing is allowed
        margin, gap = _margin(seen, expected, gap, allowance)
    margin = np.where(claimed, margin, -1.0)
    return _worst(relation, what, (seen, expected, gap, allowance), margin, int(claimed.sum()))


def _margin(seen: Array, expected: Array, gap: Array, allowance: Array) -> tuple[Array, Array]:
    """Gap over allowance, and the gap, where either may not be a finite number."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(seen == expected, 0, np.where(np.isnan(gap), np.inf, gap))
        margin = np.where(np.isinf(gap) | np.isnan(allowance), np.inf, gap / allowance)
    return np.where(gap == 0, 0, margin), gap


def _worst(relation: str, what: str, arrays: tuple[Array, ...], margin: Array, claimed: int) -> Measured:
    if not claimed:
        return Measured(relation, f"{what}: nothing here is claimed", 0, 0, 0, 0, 0, (), margin.size, 0)
    at = tuple(int(i) for i in np.unravel_index(int(margin.argmax()), margin.shape))
    seen, expected, gap, allowance = (float(array[at]) for array in arrays)
    wrong = int((margin > 1).sum())
    allowed = f"{gap:.3g} where {allowance:.2g} is allowed"
    sentence = (f"{what}: {wrong} of {claimed} entries differ; worst at {at}, {seen:.9g} against {expected:.9g}, "
                f"apart by {allowed}" if wrong else
                f"{what}: all {claimed} entries agree; the closest call at {at} is apart by {allowed}")
    return Measured(relation, sentence, float(margin[at]), gap, allowance, seen, expected, at, margin.size, claimed,
                    wrong)


def verdict(relation: str, sentence: str, *, broken: bool, entries: int = 1) -> Measured:
    """A claim that holds or does not, without a distance."""
    margin = float("inf") if broken else 0.0
    return Measured(relation, sentence, margin, float(broken), 0.0, 0.0, 0.0, (), entries, entries, int(broken))


def nothing(relation: str, why: str) -> Measured:
    """A claim that this case says nothing of."""
    return Measured(relation, why, 0.0, 0.0, 0.0, 0.0, 0.0, (), 0, 0)


def equal(relation: str, left: Array, right: Array, claimed: Array | bool = True, *, what: str) -> Measured:
    """Equal values wherever a claim is made, +0 equal to -0 and any NaN to any NaN."""
    same_nan = np.isnan(left) & np.isnan(right)
    left, right = (np.where(same_nan, 0, array) for array in (left, right))
    return measure(relation, left, right, 0.0, np.broadcast_to(claimed, left.shape), what=what)
