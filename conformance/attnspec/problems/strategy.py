"""Recipes as Hypothesis draws them. The only file here that knows Hypothesis.

All choices of a recipe are bytes of one draw: an example costs Hypothesis 0.5 ms so, against 1.1 ms for a dozen
integers (a single integer costs 0.5 ms as well), and no two choices come out alike as its mutations of integers make
them. Drawn values of a clause are integers of their own, which shrink better. Everything shrinks towards 0, which
stands for the smallest shape, no optional keyword, one family, the first of each list, and seed 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from attnspec.ground.declaration import Limits
from attnspec.ground.errors import SpecError
from attnspec.ground.nouns import Effort
from attnspec.problems.domain import Domain
from attnspec.problems.layers import model_width
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import FIELDS, Recipe
from attnspec.problems.shapes import logits, shapes_for

Choice = TypeVar("Choice")

_FAMILIES_A_CALL = 4
# Scores (B·H·T·S) up to which a problem is small.
SMALL = 9_000
_SEED_BYTES = 3
_DRAWN = st.integers(0, 2**16 - 1)


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
    shapes = shapes_for(domain, limits, effort)
    if not shapes:
        return st.nothing()
    menu = _Menu(domain, limits, shapes, tuple(sorted(domain.sometimes & offered)), draws)
    choices = st.binary(min_size=menu.length, max_size=menu.length)
    if not draws:
        return choices.map(menu.recipe)
    return st.tuples(choices, *(_DRAWN,) * len(draws)).map(lambda chosen: menu.recipe(*chosen))


@dataclass(frozen=True, slots=True)
class _Menu:
    """What there is to choose from, and which bytes stand for which choice."""

    domain: Domain
    limits: Limits
    shapes: tuple[Sizes, ...]
    optional: tuple[str, ...]
    draws: tuple[str, ...]

    @property
    def length(self) -> int:
        """In bytes, one a choice: shape, keywords, mask, bias, scale, inputs, families (count, which), and the seed."""
        return 6 + len(self.optional) + _FAMILIES_A_CALL + _SEED_BYTES

    def recipe(self, choices: bytes, *drawn: int) -> Recipe:
        """The recipe that these bytes and drawn values stand for."""
        rest = iter(choices)
        sizes = _pick(self._weighted, next(rest))
        features = self.domain.always | self._features(rest, sizes)
        mask, bias = _pick(self.domain.masks, next(rest)), _pick(self.domain.biases, next(rest))
        scale, inputs = _pick(self.domain.scales, next(rest)), _pick(self._inputs(sizes), next(rest))
        return Recipe(
            sizes, self._families(rest, sizes), mask if "mask" in features else "none", features,
            int.from_bytes(rest, "big"), dict(zip(self.draws, drawn, strict=True)),
            bias if "bias" in features else "normal", scale if "scale" in features else 1.0,
            model_width(sizes, self.limits) if self.domain.is_layer else 0, inputs)

    @property
    def _weighted(self) -> tuple[Sizes, ...]:
        """The shapes, small ones three times: a large problem costs as much as ten small ones and finds no more."""
        return tuple(sizes for sizes in self.shapes for _ in range(3 if logits(sizes) <= SMALL else 1))

    def _features(self, choices: Iterator[int], sizes: Sizes) -> frozenset[str]:
        """Each keyword in half of the cases; causal in 7 of 8 where T ≠ S, since only there its alignment shows."""
        used = set()
        for keyword in self.optional:
            least = 32 if keyword == "causal" and sizes.T != sizes.S else 128
            if next(choices) >= least:
                used.add(keyword)
        return frozenset(used)

    def _families(self, choices: Iterator[int], sizes: Sizes) -> tuple[str, ...]:
        """One to four, no more than there are key/value heads to fill."""
        count = min(_pick(range(1, _FAMILIES_A_CALL + 1), next(choices)), sizes.B * sizes.Hkv)
        named = [_pick(self.domain.families, next(choices)) for _ in range(_FAMILIES_A_CALL)]
        return tuple(named[:count])

    def _inputs(self, sizes: Sizes) -> tuple[str, ...]:
        if not self.domain.is_layer:
            return ("separate",)
        if self.limits.self_attention_only:
            return ("one",)
        if self.domain.inputs != "any":
            return (self.domain.inputs,)
        return ("separate", "memory", "one") if sizes.T == sizes.S else ("separate", "memory")


def _pick(choices: Sequence[Choice], byte: int) -> Choice:
    """The choice that a byte stands for; a smaller byte never stands for a later one."""
    return choices[byte * len(choices) >> 8]
