"""One array of an answer beside the true one: whether it is near it, or near another's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """The true array, how far the subject's and a fault's class may be from it, and which rows are judged.

    either: (…,1) the most that honest answers of both may be apart in a row, be it that nothing is hidden from it: a
    wrong answer may see what it should not.  relative: the roundings of both that are proportional to what is returned.
    """

    truth: Array
    own: Array
    other: Array
    either: Array
    judged: Array
    relative: float

    def is_near(self, seen: Array, allowance: Array) -> bool:
        """Whether an array, (B,H,T,Dv) or as the truth is, is the true one within an allowance."""
        return not (self.judged & _beyond(seen, self.truth, allowance)).any()

    def are_near(self, seen: Array, other: Array, spread: float) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are one within the roundings of both classes at the size
        of the second, and `spread`.
        """
        size, least = (np.abs(finite(array)).max(axis=-1, keepdims=True, initial=0.0) for array in (other, self.truth))
        # a wrong answer may be larger than the true one, and rounds in proportion to its own size
        stretch = np.maximum(1.0, size / np.where(least > 0, least, np.inf))
        slack = self.either * stretch + self.relative * size + spread
        return not (self.judged & _beyond(seen, other, slack)).any()

    def are_close(self, seen: Array, other: Array) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are as near to each other as two honest ones, entry by
        entry.
        """
        return not (self.judged & _beyond(seen, other, self.own + self.other)).any()

    def nearness(self, seen: Array, other: Array) -> float:
        """How far an array, (B,H,T,Dv) or as the truth is, is from another, in units of how far it is from the true
        one: below 1 is nearer.
        """
        with np.errstate(all="ignore"):
            gap, off = (float(np.nanmax(np.where(self.judged, np.abs(seen - array), 0.0), initial=0.0))
                        for array in (other, self.truth))
        return gap / off if off > 0 else np.inf if gap > 0 else 0.0


def distance(one: Array, other: Array) -> float:
    """The largest distance of two arrays of one shape, any shape; infinities and NaNs have none."""
    with np.errstate(all="ignore"):
        return float(np.abs(finite(one - other)).max(initial=0.0))


def finite(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0.0)


def _beyond(seen: Array, other: Array, slack: Array) -> Array:
    """Where two arrays, any shape, are further apart than allowed; equal infinities and any two NaNs are not apart."""
    with np.errstate(all="ignore"):
        near = (np.abs(seen - other) <= slack) & np.isfinite(other)
    return np.asarray(~(near | (seen == other) | (np.isnan(seen) & np.isnan(other))))
