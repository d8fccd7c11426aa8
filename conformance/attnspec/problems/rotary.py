"""The input of a rotary embedding, and how it is made of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from attnspec.core.nouns import DType
from attnspec.core.rotary import FARTHEST, POSITIONS, PositionPattern, width_of
from attnspec.problems.families import Words, random_words
from attnspec.problems.make import as_dtype, fill_arrays
from attnspec.problems.problem import Array, Recipe, Sizes

NEAR = 4096
"""Positions that are not far lie below."""


@dataclass(frozen=True, slots=True, eq=False)
class RotaryProblem:
    """x (B,H,T,D) in the dtype under test, positions (B,T) int32; a keyword that is None or False is left out."""

    dtype: DType
    x: Array
    positions: Array
    base: float | None = None
    rotary_width: int | None = None
    interleaved: bool = False

    @property
    def sizes(self) -> Sizes:
        """B, H, T and D, as a recipe has them: S = T, Hkv = H, Dv = D."""
        B, H, T, D = self.x.shape
        return Sizes(B, H, H, T, T, D, D)

    @property
    def given(self) -> dict[str, Any]:
        """The keywords in use, each with its value, and the positions."""
        used = {"base": self.base, "rotary_width": self.rotary_width, "interleaved": self.interleaved or None}
        return {POSITIONS: self.positions, **{name: value for name, value in used.items() if value is not None}}

    @property
    def keywords(self) -> frozenset[str]:
        """What a subject must take to be handed this."""
        return frozenset(self.given)

    @property
    def width(self) -> int:
        """How many features are turned."""
        return self.x.shape[-1] if self.rotary_width is None else self.rotary_width

    def but(self, **changes: Any) -> Self:  # noqa: ANN401  (the fields have types of their own)
        """The same with some fields replaced."""
        return replace(self, **changes)

    def __str__(self) -> str:
        used = "".join(f" {name}" for name in sorted(self.keywords))
        return f"{self.sizes} {self.dtype.value}{used}"


def make_rotary(recipe: Recipe, dtype: DType) -> RotaryProblem:
    """The problem of a recipe, bit for bit the same everywhere; x is filled as a query is."""
    sizes = recipe.sizes
    query, _, _ = fill_arrays(recipe.seed, replace(sizes, S=1), recipe.families, dtype)
    has = recipe.features.__contains__
    return RotaryProblem(
        dtype, as_dtype(query, dtype).reshape(sizes.B, sizes.H, sizes.T, sizes.D),
        positions_by(recipe.value(POSITIONS), recipe.seed, sizes),
        base=recipe.value("base") if has("base") else None,
        rotary_width=width_of(recipe.value("rotary_width"), sizes.D) if has("rotary_width") else None,
        interleaved=has("interleaved"))


def positions_by(pattern: PositionPattern, seed: int, sizes: Sizes) -> Array:
    """(B,T) int32: the places of the tokens by the name of a pattern."""
    made: Array = _POSITIONS[pattern](random_words(seed, POSITIONS, (sizes.B, sizes.T)))
    return np.ascontiguousarray(np.broadcast_to(made, (sizes.B, sizes.T)), np.int32)


def _consecutive_positions(random: Words) -> Array:
    """(T,)."""
    return np.arange(random.shape[1])


def _offset(random: Words) -> Array:
    """(B,T): from a place of its own, so that the last one lies below NEAR where there is room."""
    return np.asarray(_consecutive_positions(random) + random[:, :1] % np.uint32(max(1, NEAR - random.shape[1])))


def _far(random: Words) -> Array:
    """(B,T): up to a place of its own among the last eighth, in the first entry the farthest."""
    back = random[:, :1] % np.uint32(FARTHEST // 8)
    back[0] = 0
    return np.asarray(FARTHEST - back.astype(np.int64) - _consecutive_positions(random)[::-1])


def _packed_positions(random: Words) -> Array:
    """(B,T): from 0, and from 0 again at a place of its own."""
    begins = random[:, :1] % np.uint32(random.shape[1])
    places = _consecutive_positions(random) - begins.astype(np.int64)
    return np.where(places < 0, _consecutive_positions(random), places)


_POSITIONS: Mapping[PositionPattern, Callable[[Words], Array]] = {
    "counted": _consecutive_positions,
    "offset": _offset,
    "scattered": lambda random: random % np.uint32(NEAR),
    "far": _far,
    "packed": _packed_positions,
    "zero": np.zeros_like,
}
