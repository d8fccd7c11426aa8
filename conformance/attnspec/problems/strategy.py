"""Recipes as Hypothesis draws them. The only file here that knows Hypothesis.

The choices of `menu` are one draw. Drawn values of a clause are integers of their own, which shrink better. Everything
shrinks towards 0.
"""

from __future__ import annotations

from hypothesis import strategies as st

from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError
from attnspec.core.nouns import Effort
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.domain import Domain
from attnspec.problems.recipe import FIELDS, Recipe

MOST_DRAWN = 2**16 - 1
"""The greatest number that stands for a drawn value."""


def recipes(domain: Domain, offered: frozenset[str], limits: Limits, effort: Effort,
            draws: tuple[str, ...] = ()) -> st.SearchStrategy[Recipe]:
    """Recipes of a domain for a subject that offers these keywords within these limits.

    draws: names of the clause's drawn values; each becomes an integer 0 … 65,535 of `recipe.drawn`.
    Nothing can be drawn (`st.nothing()`) where domain and limits leave no shape: `shapes_for` is empty then.
    Raises SpecError for a drawn value that has the name of a field of a recipe.
    """
    for name in draws:
        if name in FIELDS:
            raise SpecError(f"a drawn value cannot be called {name!r}: a recipe has a field of that name.")
    menu = menu_of(domain, offered, limits, effort, draws)
    return st.nothing() if menu is None else from_menu(menu)


def from_menu(menu: Menu) -> st.SearchStrategy[Recipe]:
    """The recipes of a menu. Hypothesis's choices are the bytes, then one integer for each drawn value."""
    return choices_of(menu).map(lambda chosen: menu.recipe(*chosen))


def choices_of(menu: Menu) -> st.SearchStrategy[tuple[bytes, *tuple[int, ...]]]:
    """What a recipe of a menu is made from: `Menu.recipe` takes it."""
    bytes_of_menu = st.binary(min_size=menu.length, max_size=menu.length)
    return st.tuples(bytes_of_menu, *(st.integers(0, MOST_DRAWN),) * len(menu.draws))
