"""The cases of a block, drawn from its number alone: any block can be made again, in any order, on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from attnspec.court.compile import Check
from attnspec.court.fixed import FIXED_KINDS, fixed_recipes
from attnspec.court.openings import seed_of
from attnspec.ground.declaration import Declaration, Limits
from attnspec.ground.nouns import DType, Effort
from attnspec.problems.domain import Domain
from attnspec.problems.menu import SMALL, Menu
from attnspec.problems.recipe import Recipe
from attnspec.problems.shapes import logits, shapes_for
from attnspec.problems.stream import words

LARGE_ONE_IN = 50
"""One case in so many is of any shape of the pool; the others are small, where a case costs a tenth."""

_BYTES, _HALF = 4, 16  # bytes in a word of the stream, and half of its bits: the range of drawn values


@dataclass(frozen=True, slots=True)
class Block:
    """`number` of a campaign with `seed` at one dtype: `recipes` of each domain."""

    dtype: DType
    number: int
    seed: int
    recipes: int

    def cases(self, check: Check, declaration: Declaration) -> tuple[Recipe, ...]:
        """The recipes that a clause is tried on; clauses of one domain get the same, but for their drawn values.

        Kinds that are not searched (laws of chance, documented examples) are tried once, block by block at another
        shape and with a seed of the block: so the rates of false alarms that they state are put to the test as well.
        """
        if check.domain.kind in FIXED_KINDS:
            fixed = fixed_recipes(check.domain, declaration.limits, Effort.DEFAULT, self._seed)
            return (fixed[self.number % len(fixed)],) if fixed else ()
        optional = tuple(sorted(check.domain.sometimes & declaration.keywords))
        draws = tuple(check.clause.draw)
        return tuple(replace(recipe, drawn=self._drawn(check.domain, index, draws))
                     for index, recipe in enumerate(_problems(self, check.domain, declaration.limits, optional)))

    @property
    def _seed(self) -> int:
        return int(words(self.seed, f"campaign {self.dtype.value} {self.number}", (1,))[0])

    def _drawn(self, domain: Domain, index: int, draws: tuple[str, ...]) -> Mapping[str, int]:
        label = self.label(domain) if draws else ""
        return {name: int(words(self.seed, f"{label} {index} {name}", (1,))[0] >> _HALF) for name in draws}

    def label(self, domain: Domain) -> str:
        """What tells the block's words for a domain from all others."""
        return f"campaign {self.dtype.value} {self.number} {seed_of(0, domain)}"


@lru_cache(maxsize=256)  # the clauses of a domain come one after the other, and so do subjects
def _problems(block: Block, domain: Domain, limits: Limits, optional: tuple[str, ...]) -> tuple[Recipe, ...]:
    shapes = shapes_for(domain, limits, Effort.DEFAULT)
    small = tuple(sizes for sizes in shapes if logits(sizes) <= SMALL) or shapes
    menu, any_size = (Menu(domain, limits, offered, optional) for offered in (small, shapes))
    label, count = block.label(domain), block.recipes if shapes else 0
    rare = (words(block.seed, f"{label} {index} shape", (1,))[0] % LARGE_ONE_IN == 0 for index in range(count))
    return tuple(_recipe(any_size if is_any else menu, block.seed, f"{label} {index}")
                 for index, is_any in enumerate(rare))


def _recipe(menu: Menu, seed: int, label: str) -> Recipe:
    return menu.recipe(words(seed, label, (-(-menu.length // _BYTES),)).tobytes()[:menu.length])
