"""The problems by which a diagnosis tells faults apart: their sizes, and the recipe of one."""

from __future__ import annotations

from typing import Any

from attnspec.problems.problem import Recipe, Sizes

#                     B  H Hkv  T   S   D  Dv
REMEMBERED = Sizes(1, 2, 2, 4, 6, 5, 3)      # no shape of the pool: nothing of it can have been remembered before
LONGER = Sizes(1, 2, 2, 4, 9, 5, 3)
GROUPED = Sizes(2, 6, 2, 5, 7, 6, 4)
QUERIES = Sizes(2, 3, 3, 9, 6, 8, 5)
SQUARE = Sizes(2, 2, 2, 6, 6, 5, 5)
BLOCKS = Sizes(2, 4, 2, 18, 37, 16, 8)
EVEN = Sizes(1, 4, 4, 32, 32, 9, 16)
LONG = Sizes(1, 2, 2, 2, 530, 8, 8)
ONE = Sizes(2, 2, 2, 1, 5, 7, 4)
ONE_KEY = Sizes(2, 2, 2, 5, 1, 7, 4)
RAGGED = Sizes(3, 2, 2, 4, 11, 6, 5)         # keys enough for three lengths, of which some end in the past
REMEMBERED_LAYER = Sizes(2, 2, 2, 4, 4, 6, 6)
SQUARE_LAYER = Sizes(2, 3, 3, 5, 5, 4, 4)
WIDE_LAYER = Sizes(2, 2, 2, 5, 7, 4, 3)
GROUPED_LAYER = Sizes(2, 4, 2, 6, 5, 4, 4)


def panel_recipe(sizes: Sizes, keywords: str, families: str = "normal", *, mask: str = "random", seed: int = 1,
                 bias: str = "normal", scale: float = 0.3, **values: Any) -> Recipe:  # noqa: ANN401  (by the keyword)
    """A problem of these sizes with these keywords; `values` are those of uncommon keywords, by name."""
    features = frozenset(keywords.split())
    return Recipe(sizes, tuple(families.split()), mask if "mask" in features else "none", features, seed,
                  bias=bias, scale=scale, values=values)
