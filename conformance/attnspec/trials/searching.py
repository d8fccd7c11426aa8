"""Hypothesis at work on the cases of one clause: it draws them, climbs towards those that come close, and shrinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.errors import Flaky

from attnspec.problems.choices import Menu
from attnspec.problems.strategy import choices_of
from attnspec.trials.covering_cases import Choices

LEAST_MARGIN = 2.0**-40
"""What the search takes a margin for that is smaller, 0 among them: it climbs in octaves."""


MarginOf = Callable[[Choices], float | None]
"""How close a case comes, None if nothing is claimed. It raises for one that fails."""


def draw(margin_of: MarginOf, menu: Menu, seed: int, count: int) -> None:
    """So many cases of what a menu offers, the later ones closer to a failure; the first that fails is the last."""
    _search(margin_of, menu, seed, max_examples=count, phases=(Phase.generate, Phase.target))


def shrink(margin_of: MarginOf, menu: Menu, seed: int, failing: Choices) -> None:
    """Ever simpler cases than one that fails."""
    _search(margin_of, menu, seed, database=OneExample(failing), phases=(Phase.reuse, Phase.shrink))


def _search(margin_of: MarginOf, menu: Menu, seed: int, **how: Any) -> None:  # noqa: ANN401  (settings)
    # no deadline: a first call may compile, and a slow answer is no wrong one; one failure is all that a tally keeps
    decide = settings(**{"database": None, **how}, deadline=None, suppress_health_check=list(HealthCheck),
                      report_multiple_bugs=False, print_blob=False)

    def holds(choices: Choices) -> None:
        if (margin := margin_of(choices)) is not None:  # Hypothesis is told in octaves
            target(np.log2(max(margin, LEAST_MARGIN)))

    test = decide(seeded(seed)(given(choices=choices_of(menu))(holds)))  # seeded first, or no database is read
    with contextlib.suppress(Flaky):  # a subject with a memory fails once and not again: the tally keeps it
        test()


class OneExample(ExampleDatabase):
    """A database that knows one example, whatever test asks: what Hypothesis is to shrink."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._example = choices_to_bytes(choices)

    def fetch(self, key: bytes) -> Iterator[bytes]:
        """The example, among those that are still to be shrunk; under a bare key stand those that need it no more."""
        if key.endswith(b".secondary"):
            yield self._example

    def save(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Nothing is forgotten."""
