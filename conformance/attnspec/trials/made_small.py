"""A failing case made small: at the smallest sizes at which it fails, or at ones that are easy to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from attnspec.core.declaration import Limits
from attnspec.problems.choices import SEED_BYTES, Menu
from attnspec.problems.domain import Domain
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe
from attnspec.subjects.subject import SubjectRaised
from attnspec.trials.covering_cases import Choices
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.resizing import Resizer

MOST, MOST_WORK, MOST_SECONDS = 40, 1e9, 10.0
"""At so many other sizes, so many multiply-adds and seconds, a failing case is put to make its sizes small."""

PATIENCE_AT_ASKED = 2e10, 60.0
"""The same multiply-adds and seconds for a case at sizes that a user names: it may be a hundred times as dear."""

HANDY = 4
"""The lengths and widths that a failing case is given first, if it fails with them."""


def made_small(put: Callable[[Recipe], Tally], tally: Tally, domain: Domain, limits: Limits) -> Recipe | None:
    """The case that failed last, at the smallest sizes at which it fails in the same way; None if these are its own."""
    failing = tally.failing
    if failing is None or not isinstance(tally.failure, (Violated, SubjectRaised)):
        return None
    resizer = Resizer(put, failing, domain, limits, MOST, MOST_WORK, MOST_SECONDS, type(tally.failure))
    smallest = resizer.smallest()
    return resizer.failing.get(smallest) if smallest != failing.sizes else None


def made_handy(put: Callable[[Recipe], Tally], menu: Menu, choices: Choices, tally: Tally,
               patience: tuple[float, float] = (MOST_WORK, MOST_SECONDS), *,
               small: Sequence[Sizes] = ()) -> tuple[Menu, Choices]:
    """The choices of a case that failed, at small sizes, of a menu that offers no others; as it is where it does not
    fail there. patience: multiply-adds and seconds that it may cost.  small: sizes at which other clauses fail; if it
    fails there, too, no smaller ones are looked for.

    Not the very smallest: with a few more entries it is easier to see which keywords and values it takes.
    """
    if not isinstance(tally.failure, (Violated, SubjectRaised)):
        return menu, choices
    resizer = Resizer(put, menu.recipe(*choices), menu.domain, menu.limits, MOST, *patience, type(tally.failure), HANDY)
    sizes = next(filter(resizer.fails, small), None) or resizer.smallest()
    if sizes not in resizer.failing:
        return menu, choices
    entries, *drawn = choices
    # the first byte chooses the shape, the last ones are the seed
    seed = resizer.failing[sizes].seed.to_bytes(SEED_BYTES, "big")
    return replace(menu, shapes=(sizes,)), (bytes([0, *entries[1:-SEED_BYTES], *seed]), *drawn)
