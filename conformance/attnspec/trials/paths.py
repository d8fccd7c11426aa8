"""Which cases took the path that a variant is about. An adapter that goes another way says so on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attnspec.problems.choices import Menu
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Reading
from attnspec.trials.covering_cases import deal_openings

MARK = "attnspec: path not taken"
"""What an adapter prints, at the beginning of a line, in a call that does not take the path of its variant."""

GENTLE = "integers"
"""The family of entries that lie close together: what keeps a call from a fast path is mostly that they do not."""

_LOOKED_AT = 24  # openings among which cases with a keyword are looked for
_OF_EACH = 2  # cases of each keyword
_SEVERAL = 3  # keys


@dataclass(slots=True)
class Paths:
    """Counts, for one variant at one dtype, how many calls took its path, and how many did not."""

    taken_count: int = 0
    left_count: int = 0

    def count(self, said: str) -> None:
        """Take an answer into account. said: what was printed meanwhile."""
        if said.startswith(MARK) or f"\n{MARK}" in said:
            self.left_count += 1
        else:
            self.taken_count += 1


def gentle_cases(menu: Menu, seed: int, keywords: frozenset[str]) -> Iterator[Recipe]:
    """The cases with each of these keywords, and with few others, whose entries keep no call from a fast path; and with
    several keys, where there are such: with one key no keyword changes anything.
    """
    recipes = [menu.recipe(*choices) for choices in deal_openings(menu, seed, _LOOKED_AT)]
    for keyword in sorted(keywords):
        having = sorted((each for each in recipes if keyword in each.features), key=_tells_little)
        yield from (replace(each, families=(GENTLE,)) for each in having[:_OF_EACH])


def _tells_little(recipe: Recipe) -> tuple[float, ...]:
    """A key to sort by: what tells most, at least cost, comes first."""
    sizes = recipe.sizes
    return sizes.S < _SEVERAL, len(recipe.features), sizes.B * sizes.H * sizes.T * sizes.S * sizes.D


def readings_of(paths: Mapping[str, Paths]) -> Iterator[Reading]:
    """Tells of each variant that went another way in some call in how many it took its path."""
    for name, each in paths.items():
        if each.left_count:
            whole = each.taken_count + each.left_count
            yield Reading(f"path of {name}", f"{each.taken_count} of {whole}", 0.0,
                          f"{each.taken_count} of {whole} calls took the path of the variant {name}")
