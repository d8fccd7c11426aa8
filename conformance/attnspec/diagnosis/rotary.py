"""What tells the faults of rotary embeddings apart, and the arithmetic that may explain one."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.core.rotary import POSITIONS, width_of
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe

_FEW, _WIDE = Sizes(2, 2, 2, 5, 5, 8, 8), Sizes(3, 2, 2, 9, 9, 24, 24)


def _recipe(sizes: Sizes, positions: str, keywords: str = "", *, seed: int, width: str = "half") -> Recipe:
    """The recipe of a call: a width that turns nothing else than the whole would would say nothing."""
    assert width_of(width, sizes.D) < sizes.D
    values = {POSITIONS: positions, "base": 500000.0, "rotary_width": width}
    features = frozenset({POSITIONS, *keywords.split()})
    return Recipe(sizes, ("normal",), "none", features, seed,
                  values={name: value for name, value in values.items() if name in features})


CALLS = (
    _recipe(_FEW, "counted", seed=1), _recipe(_FEW, "offset", seed=2), _recipe(_FEW, "scattered", seed=3),
    _recipe(_FEW, "packed", seed=4), _recipe(_FEW, "far", seed=5), _recipe(_FEW, "zero", seed=6),
    _recipe(_FEW, "offset", "base", seed=7), _recipe(_FEW, "offset", "rotary_width", seed=8),
    _recipe(_FEW, "offset", "interleaved", seed=9), _recipe(_WIDE, "scattered", "base rotary_width", seed=10),
    _recipe(_WIDE, "scattered", "interleaved rotary_width", seed=11, width="two"),
    _recipe(_WIDE, "far", "base interleaved", seed=12),
    _recipe(_WIDE, "counted", "base interleaved rotary_width", seed=13),
)
"""Calls that are put to a rotary embedding and to its faults."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Angles, or cos and sin, in a narrower format: what such a function does, what would mend it, and its words."""

    cause: str
    advice: str
    words: dict[str, object]


def narrow_for(dtype: DType) -> tuple[Narrow, ...]:
    """The classes that may explain an answer at a dtype, the likelier first."""
    if dtype is DType.FLOAT64:
        return (Narrow("its angles are computed in float32", "Compute frequencies and angles in float64",
                       {"angle": "float32"}),
                Narrow("it turns its features in float32", "Compute in float64",
                       {"angle": "float32", "rotation": "float32"}))
    if dtype is DType.FLOAT32:
        return tuple(Narrow(f"its cos and sin are stored in {half}", "Store them in float32", {"rotation": half})
                     for half in ("float16", "bfloat16"))
    return ()
