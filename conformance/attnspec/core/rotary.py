"""The form of a rotary embedding, `rotate(x, positions, *, ...)`: what it takes, and what it is put.

It is another kind of subject than attention, with keywords of its own. A recipe spells them as it spells those of
attention, and has S = T, Hkv = H and Dv = D. In shapes, R is the number of pairs that are turned: r = 2R features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from attnspec.core.errors import SpecError
from attnspec.core.keyword import Acts, Keyword, Saying, Values, make_pattern_values
from attnspec.core.keywords import KEYWORDS, VALUED, Lists
from attnspec.core.nouns import Kind

POSITIONS = "positions"
"""The name of the second parameter, by which a rotary embedding is known."""

PROFILE = "rotary"
DEFAULT_BASE = 10000.0
FARTHEST = 131_072
"""The largest position that is put: the length of context that current models are published with."""

PositionPattern = Literal["counted", "offset", "scattered", "far", "packed", "zero"]
POSITION_PATTERNS: Mapping[PositionPattern, str] = {
    "counted": "0 … T-1 in every batch entry",
    "offset": "each batch entry counts on from a place of its own, up to 4,095",
    "scattered": "in any order, from 0 to 4,095, for each batch entry its own",
    "far": "each batch entry ends with a place of its own, the first one with 131,072",
    "packed": "counting begins at 0 again within each batch entry, at a place of its own",
    "zero": "0 everywhere",
}
"""How positions are made. A clause asks for `zero`, where nothing is turned."""
USUAL_POSITIONS: tuple[PositionPattern, ...] = ("counted", "offset", "scattered", "far", "packed")

WidthPattern = Literal["half", "two", "all_but_two", "all"]
WIDTH_PATTERNS: Mapping[WidthPattern, str] = {
    "half": "half of the features, an even number of them",
    "two": "the first two features",
    "all_but_two": "all features but the last two, or both",
    "all": "all features",
}
USUAL_WIDTHS: tuple[WidthPattern, ...] = ("half", "all_but_two", "two", "all")


class RotaryLists(Lists, total=False):
    """What a clause may say of the values that are drawn, of a rotary embedding too."""

    position_patterns: Literal["any"] | tuple[PositionPattern, ...]
    bases: Literal["any"] | tuple[float, ...]
    rotary_width_patterns: Literal["any"] | tuple[WidthPattern, ...]


def _base(text: str) -> float:
    """A base in a recipe. Raises ValueError for what is none."""
    try:
        base = float(text)
    except ValueError:
        base = 0.0
    if not 1 < base < math.inf:
        raise ValueError(f"base should be a number above 1, not {text!r}")
    return base


def _taken_base(base: float) -> float:
    if not 1 < base < math.inf:
        raise SpecError(f"a base is above 1, not {base:g}.")
    return float(base)


_ROTARY = frozenset({Kind.ROTARY})
# who claims the profile promises to take positions; the other keywords are a function's own choice
_word = partial(Keyword, acts=Acts.ROTATION, kinds=_ROTARY, in_layers=False, is_uncommon=True)

_ALL = (
    _word(POSITIONS, "(B,T) int32", "the place of each token; given by position, as the second argument", PROFILE,
          annotation="{0}", required=_ROTARY, axes="BT", values=make_pattern_values(
              POSITIONS, POSITION_PATTERNS, USUAL_POSITIONS, "positions"),
          other_names=("position_ids", "input_pos", "offset"),
          parameters=("positions", "position_ids", "input_pos", "pos", "segment_pos", "input_positions")),
    _word("base", "float", "pair i of r/2 is turned by position · base^(-2i/r); 10000 if it is left out", "",
          annotation="float", values=Values((500000.0, 100.0, 1000000.0), "bases", DEFAULT_BASE, repr, _base,
                                            _taken_base),
          other_names=("theta", "rope_theta", "max_wavelength"),
          parameters=("base", "theta", "rope_theta", "max_wavelength", "rope_base", "freq_base"),
          sayings=(Saying("base", posed=500000.0),)),
    _word("rotary_width", "int", "how many features are turned, the first r; all if it is left out", "",
          annotation="int | None", values=make_pattern_values(
              "rotary_width", WIDTH_PATTERNS, USUAL_WIDTHS, "rotary widths", "rotary_width_patterns"),
          other_names=("rotary_embedding_dim", "rotary_dim", "dims"),
          parameters=("rotary_width", "rotary_embedding_dim", "rotary_dim", "dims", "rope_dim", "rot_dim", "n_elem"),
          sayings=(Saying("rotary_width"),)),
    _word("interleaved", "bool", "features 2i and 2i+1 are a pair; else i and i + r/2 are", "", annotation="bool",
          other_names=("traditional", "rotary_interleaved"),
          parameters=("interleaved", "traditional", "rotary_interleaved", "is_neox_style", "is_neox"),
          sayings=(Saying("interleaved", posed=True),)),
)

ROTARY: Mapping[str, Keyword] = {word.name: word for word in _ALL}
"""What a rotary embedding takes beside x: `positions` always, the others if it has a parameter for them."""

EVERY_KEYWORD: Mapping[str, Keyword] = {**KEYWORDS, **ROTARY}
EVERY_VALUED: Mapping[str, Values] = {**VALUED, **{word.name: word.values for word in _ALL if word.values}}
"""All keywords whose values a recipe holds in a mapping."""

def width_of(pattern: str, D: int) -> int:
    """How many of D features are turned by this pattern."""
    by_pattern: Mapping[Any, int] = {"half": D // 4 * 2, "two": 2, "all_but_two": D - 2, "all": D}
    return max(2, by_pattern[pattern])
