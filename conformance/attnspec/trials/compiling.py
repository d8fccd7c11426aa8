"""What the compiler of one subject has taken, and how much more it may."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable
from dataclasses import dataclass, field

from attnspec.core.compiling import SHARE


@dataclass(slots=True)
class CompilingTime:
    """Seconds of processors that the calls of a subject have taken in its process, of those that they may take.

    Not seconds of the clock: what was tried is not to depend on what else the machine does.
    """

    most: float = math.inf
    spent: float = 0.0
    _first: dict[Hashable, float] = field(default_factory=dict)
    _told: float = 0.0

    def count(self, shape: Hashable, seconds: float) -> None:
        """Count a call. shape: the same for calls of which the first is compiled."""
        self.spent += seconds
        self._first.setdefault(shape, seconds)

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
