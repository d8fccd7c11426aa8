"""Lets Hypothesis search the cases of a clause: it draws, climbs towards failures, and shrinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.errors import Flaky

from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError
from attnspec.core.nouns import Effort
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.domain import Domain
from attnspec.problems.problem import RECIPE_FIELDS, Recipe
from attnspec.trials.covering_cases import Choices

LEAST_MARGIN = 2.0**-40
"""The search takes a smaller margin for this one: it climbs in octaves."""


MarginOf = Callable[[Choices], float | None]
"""How close a case comes to failing, None if nothing is claimed. It raises for one that fails."""


def draw_cases(margin_of: MarginOf, menu: Menu, seed: int, count: int) -> None:
    """Draws so many cases, later ones closer to a failure; the first that fails is the last."""
    _search(margin_of, menu, seed, max_examples=count, phases=(Phase.generate, Phase.target))


def shrink_case(margin_of: MarginOf, menu: Menu, seed: int, failing: Choices) -> None:
    """Tries ever simpler cases than one that fails."""
    _search(margin_of, menu, seed, database=OneExample(failing),
            phases=(Phase.reuse, Phase.shrink))


def _search(margin_of: MarginOf, menu: Menu, seed: int, **how: Any) -> None:  # noqa: ANN401  (settings)
    # no deadline: a first call may compile, and a slow answer is no wrong one; one failure is all
    # that a tally keeps
    decide = settings(**{"database": None, **how}, deadline=None,
                      suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
                      print_blob=False)

    def holds(choices: Choices) -> None:
        if (margin := margin_of(choices)) is not None:  # Hypothesis is told in octaves
            target(np.log2(max(margin, LEAST_MARGIN)))

    # seeded first, or no database is read
    test = decide(seeded(seed)(given(choices=choices_of(menu))(holds)))
    # a subject with a memory fails once and not again: the tally keeps it
    with contextlib.suppress(Flaky):
        test()


class OneExample(ExampleDatabase):
    """A database with one example, which Hypothesis is to shrink, whatever test asks."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._example = choices_to_bytes(choices)

    def fetch(self, key: bytes) -> Iterator[bytes]:
        """The example, under the key of what is still to be shrunk; nothing under others."""
        if key.endswith(b".secondary"):
            yield self._example

    def save(self, key: bytes, value: bytes) -> None:
        """Keeps nothing."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Deletes nothing."""


# Recipes as Hypothesis draws them


MOST_DRAWN = 2**16 - 1
"""The greatest number that stands for a drawn value."""


def recipe_strategy(domain: Domain, keywords: frozenset[str], limits: Limits, effort: Effort,
                    draws: tuple[str, ...] = ()) -> st.SearchStrategy[Recipe]:
    """Recipes of a domain for a subject with these keywords and limits.

    draws: names of the clause's drawn values; each becomes an integer 0 … 65,535 of
    `recipe.drawn`. Nothing can be drawn (`st.nothing()`) where domain and limits leave no shape.
    Raises SpecError for a drawn value that has the name of a field of a recipe.
    """
    for name in draws:
        if name in RECIPE_FIELDS:
            raise SpecError(
                f"a drawn value cannot be called {name!r}: a recipe has a field of that name.")
    menu = menu_of(domain, keywords, limits, effort, draws)
    if menu is None:
        return st.nothing()
    return from_menu(menu)


def from_menu(menu: Menu) -> st.SearchStrategy[Recipe]:
    """The recipes of a menu. Hypothesis chooses the bytes, then an integer for each draw."""
    return choices_of(menu).map(lambda chosen: menu.recipe(*chosen))


def choices_of(menu: Menu) -> st.SearchStrategy[tuple[bytes, *tuple[int, ...]]]:
    """What a recipe of a menu is made from: `Menu.recipe` takes it."""
    bytes_of_menu = st.binary(min_size=menu.length, max_size=menu.length)
    return st.tuples(bytes_of_menu, *(st.integers(0, MOST_DRAWN),) * len(menu.draws))
