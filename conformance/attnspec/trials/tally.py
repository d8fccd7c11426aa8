"""What a trial has met: cases, refusals, the closest call, and the failure that ended it."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.problems.axes import lengths_of
from attnspec.problems.coverage import met_by
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Measured, Reading
from attnspec.subjects.call import SubjectDied, SubjectRaised
from attnspec.subjects.causes import Found


class Violated(Exception):  # noqa: N818  (a finding, no error)
    """A relation does not hold on a case. Raised through Hypothesis, so that it shrinks the case."""

    def __init__(self, measured: Measured, recipe: Recipe) -> None:
        super().__init__(measured.sentence)
        self.measured = measured
        self.recipe = recipe


@dataclass(slots=True)
class Tally:
    """What a trial has met so far. `tried` counts the problems that were put, with a claim or without; `silent` are the
    reasons of those without.  work: what the cases cost (`demand.work`).  met: the pairs of sizes and keywords that
    they met (`problems.coverage`).  spans: the least and the greatest length of each axis.
    refused: what the subject turned out to refuse clearly, which ended the trial.
    asked: the sizes that a user names, and those beside, each with why nothing was tried there; "" if it was.
    """

    tried: int = 0
    work: float = 0.0
    cases: int = 0
    no_claims: int = 0
    silent: dict[str, int] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    worst: Measured | None = None
    last: Recipe | None = None
    failure: Violated | SubjectRaised | SubjectDied | None = None
    readings: dict[Reading, None] = field(default_factory=dict)
    met: int = 0
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    refused: tuple[Found, ...] = ()

    def meet(self, recipe: Recipe) -> None:
        """Count the sizes and keywords of a case of which something was claimed."""
        self.met |= met_by(recipe.sizes, recipe.features)
        for name, length in lengths_of(recipe.sizes).items():
            least, most = self.spans.get(name, (length, length))
            self.spans[name] = min(least, length), max(most, length)

    def add(self, measured: Measured) -> None:
        """Remember the closest call, and each reading once, in the order they came."""
        self.readings.update(dict.fromkeys(measured.readings))
        if measured.claimed and (self.worst is None or measured.margin > self.worst.margin):
            self.worst = measured

    @property
    def failing(self) -> Recipe | None:
        """The case that failed, as it was put; None if none did."""
        return self.failure.recipe if isinstance(self.failure, Violated) else self.last
