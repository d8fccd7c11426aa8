"""What a trial has met so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Measured, Reading
from attnspec.subjects.subject import SubjectRaised


class Violated(Exception):  # noqa: N818  (a finding, no error)
    """A relation does not hold on a case. Raised through Hypothesis, so that it shrinks the case."""

    def __init__(self, measured: Measured, recipe: Recipe) -> None:
        super().__init__(measured.sentence)
        self.measured = measured
        self.recipe = recipe


@dataclass(slots=True)
class Tally:
    """What a trial has met so far. `tried` counts the problems that were put, with a claim or without."""

    tried: int = 0
    cases: int = 0
    no_claims: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    worst: Measured | None = None
    last: Recipe | None = None
    failure: Violated | SubjectRaised | None = None
    readings: dict[Reading, None] = field(default_factory=dict)

    def add(self, measured: Measured) -> None:
        """Remember the closest call, and each reading once, in the order they came."""
        self.readings.update(dict.fromkeys(measured.readings))
        if measured.claimed and (self.worst is None or measured.margin > self.worst.margin):
            self.worst = measured

    @property
    def failing(self) -> Recipe | None:
        """The case that failed, as it was put; None if none did."""
        return self.failure.recipe if isinstance(self.failure, Violated) else self.last
