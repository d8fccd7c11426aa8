"""Hypothesis at work on the cases of one clause: it draws them, climbs towards those that come close, and shrinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, target
from hypothesis import seed as seeded
from hypothesis.errors import Flaky

from attnspec.problems.choices import Menu
from attnspec.problems.strategy import choices_of
from attnspec.trials.covering_cases import Choices

LEAST_MARGIN = 2.0**-40
"""What the search takes a margin for that is smaller, 0 among them: it climbs in octaves."""


def searched(margin_of: Callable[[Choices], float | None], menu: Menu, seed: int,
             **how: Any) -> None:  # noqa: ANN401  (settings)
    """Let Hypothesis work on what a menu offers. margin_of: how close a case comes, None if nothing is claimed; it
    raises for one that fails. Hypothesis is told how close in octaves.
    """
    # no deadline: a first call may compile, and a slow answer is no wrong one; one failure is all that a tally keeps
    decide = settings(**{"database": None, **how}, deadline=None, suppress_health_check=list(HealthCheck),
                      report_multiple_bugs=False, print_blob=False)

    def holds(choices: Choices) -> None:
        if (margin := margin_of(choices)) is not None:
            target(np.log2(max(margin, LEAST_MARGIN)))

    test = decide(seeded(seed)(given(choices=choices_of(menu))(holds)))  # seeded first, or no database is read
    with contextlib.suppress(Flaky):  # a subject with a memory fails once and not again: the tally keeps it
        test()
