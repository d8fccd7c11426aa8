"""The cases of a block, drawn from its number alone: any block can be made again, in any order, on any machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnspec.court.compile import Check
from attnspec.court.fixed import FIXED_KINDS, fixed_recipes
from attnspec.court.trial import seed_of
from attnspec.ground.declaration import Declaration
from attnspec.ground.nouns import DType, Effort
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
        return tuple(self._drawn(check, declaration))

    @property
    def _seed(self) -> int:
        return int(words(self.seed, f"campaign {self.dtype.value} {self.number}", (1,))[0])

    def _drawn(self, check: Check, declaration: Declaration) -> Iterator[Recipe]:
        shapes = shapes_for(check.domain, declaration.limits, Effort.DEFAULT)
        small = tuple(sizes for sizes in shapes if logits(sizes) <= SMALL) or shapes
        optional = tuple(sorted(check.domain.sometimes & declaration.keywords))
        menu, any_size = (Menu(check.domain, declaration.limits, offered, optional) for offered in (small, shapes))
        label = f"campaign {self.dtype.value} {self.number} {seed_of(0, check.domain)}"
        for index in range(self.recipes if shapes else 0):
            is_any = words(self.seed, f"{label} {index} shape", (1,))[0] % LARGE_ONE_IN == 0
            yield self._recipe(any_size if is_any else menu, f"{label} {index}", tuple(check.clause.draw))

    def _recipe(self, menu: Menu, label: str, draws: tuple[str, ...]) -> Recipe:
        chosen = words(self.seed, label, (-(-menu.length // _BYTES),)).tobytes()[:menu.length]
        drawn = {name: int(words(self.seed, f"{label} {name}", (1,))[0] >> _HALF) for name in draws}
        return replace(menu.recipe(chosen), drawn=drawn)
