"""What the compiler of one subject has taken, and how much more it may."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable
from dataclasses import dataclass, field

from attnspec.core.compiling import SHARE
from attnspec.problems.problem import Sizes

LONGER = 8
"""How compiling grows with lengths is known where one is eight times as long as another; one that does not unroll a
loop takes the same at any length.
"""

SHORT = 32
"""Queries and keys together that any function compiles soon."""


@dataclass(slots=True)
class CompilingTime:
    """Seconds of processors that the calls of a subject have taken in its process, of those that they may take.

    Not seconds of the clock: what was tried is not to depend on what else the machine does.
    """

    most: float = math.inf
    spent: float = 0.0
    _first: dict[Hashable, float] = field(default_factory=dict)
    _at_length: dict[int, float] = field(default_factory=dict)
    _told_seconds: float = 0.0

    def count(self, sizes: Sizes, given: frozenset[str], seconds: float) -> None:
        """Count a call. The first at these sizes, given these keywords, is compiled."""
        self.spent += seconds
        self._first.setdefault((sizes, given), seconds)
        self._at_length.setdefault(sizes.T + sizes.S, seconds)

    def expected_seconds(self, sizes: Sizes) -> float:
        """Seconds that a call at these sizes is expected to take, where compiling takes the longer the more queries and
        keys there are: a loop over blocks is unrolled. 0 where it does not; infinite far beyond all lengths so far
        while nobody knows: to compile a hundred blocks took one kernel 300 s.
        """
        near, far = min(self._at_length, default=SHORT), max(self._at_length, default=SHORT)
        if far < LONGER * near:
            return math.inf if LONGER * far < sizes.T + sizes.S else 0.0
        slope = statistics.linear_regression([*self._at_length], [*self._at_length.values()]).slope
        return self._at_length[far] + slope * (sizes.T + sizes.S - far) if slope > 0 else 0.0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is begun."""
        return self.spent >= self.most

    @property
    def seconds_left(self) -> float:
        """Seconds that calls may still take."""
        return max(0.0, self.most - self.spent)

    @property
    def end_of_clause(self) -> float:
        """Up to how many seconds in all a clause goes on that begins now."""
        return self.spent + self.seconds_left / SHARE

    @property
    def of_a_shape(self) -> float:
        """Seconds that the first call at a shape takes, in the middle of those that were made when it was first asked:
        all that are told so have one reason.
        """
        if not self._told_seconds and self._first:
            self._told_seconds = statistics.median(self._first.values())
        return self._told_seconds
