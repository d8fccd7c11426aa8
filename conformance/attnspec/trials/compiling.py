"""What the compiler of one subject has taken, and how much more it may."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable
from dataclasses import dataclass, field

from attnspec.core.compiling import SHARE
from attnspec.problems.problem import Sizes

LONGER, DEARER = 8, 4
"""Compiling is said to grow with lengths where eight times as many take four times as long: one that does not unroll a
loop takes the same at any length.
"""


@dataclass(slots=True)
class CompilingTime:
    """Seconds of processors that the calls of a subject have taken in its process, of those that they may take.

    Not seconds of the clock: what was tried is not to depend on what else the machine does.
    """

    most: float = math.inf
    spent: float = 0.0
    _first: dict[Hashable, float] = field(default_factory=dict)
    _at_length: dict[int, float] = field(default_factory=dict)
    _told: float = 0.0

    def count(self, sizes: Sizes, given: frozenset[str], seconds: float) -> None:
        """Count a call. The first at these sizes, given these keywords, is compiled."""
        self.spent += seconds
        self._first.setdefault((sizes, given), seconds)
        self._at_length.setdefault(sizes.T + sizes.S, seconds)

    def expected(self, sizes: Sizes) -> float:
        """Seconds that a call at these sizes is expected to take, where compiling takes the longer the more queries and
        keys there are: a loop over blocks is unrolled. 0 where it does not.
        """
        near, far = min(self._at_length, default=0), max(self._at_length, default=0)
        if far < LONGER * near or self._at_length.get(far, 0.0) < DEARER * self._at_length.get(near, 0.0):
            return 0.0
        return self._at_length[far] * (sizes.T + sizes.S) / far if far else 0.0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is begun."""
        return self.spent >= self.most

    @property
    def until(self) -> float:
        """Up to how many seconds in all a clause goes on that begins now."""
        return self.spent + (self.most - self.spent) / SHARE

    @property
    def of_a_shape(self) -> float:
        """Seconds that the first call at a shape takes, in the middle of those that were made when it was first asked:
        all that are told so have one reason.
        """
        if not self._told and self._first:
            self._told = statistics.median(self._first.values())
        return self._told
