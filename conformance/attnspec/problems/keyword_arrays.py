"""The arrays of keywords whose values are named by a pattern, each from a labelled stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.keywords import COUNTS, KEYWORDS
from attnspec.core.serving_keywords import LengthPattern
from attnspec.problems.entries import Words, words
from attnspec.problems.problem import Array, Sizes


def _some_zero(random: Words, most: int) -> Array:
    """(B,): ragged, every second one 0; the first of them is drawn, and one alone is 0."""
    ragged = _LENGTHS["ragged"](random, most)
    is_zero = np.arange(len(random)) % 2 == (random[0] >> np.uint32(31) if len(random) > 1 else 0)
    return np.where(is_zero, 0, ragged)


def _first_full(random: Words, most: int) -> Array:
    """(B,): the first entry has all, the others are ragged."""
    return np.where(np.arange(len(random)) == 0, most, _LENGTHS["ragged"](random, most))


_LENGTHS: Mapping[LengthPattern, Callable[[Words, int], Array]] = {
    "ragged": lambda random, most: 1 + random % np.uint32(most),
    "one_short": lambda random, most: np.full(len(random), max(1, most - 1)),
    "full": lambda random, most: np.full(len(random), most),
    "first_full": _first_full,
    "shortest": lambda random, most: np.ones(len(random)),  # noqa: ARG005  (a pattern's signature)
    "with_zero": _some_zero,
}


def lengths(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """(B,) int32: how many keys, or queries, each batch entry has."""
    most = getattr(sizes, COUNTS[keyword])
    made: Array = _LENGTHS[pattern](words(seed, keyword, (sizes.B,)), most).astype(np.int32)  # type: ignore[index]  # read by name
    return made


def keyword_array(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """The array of a keyword by the name of its pattern: lengths (B,)."""
    return lengths(keyword, pattern, seed, sizes)


NEUTRAL: Mapping[str, str] = dict.fromkeys(COUNTS, "full")
"""By keyword, the pattern that changes no answer. It has an array for each of these keywords."""


def sample_of(keyword: str, sizes: Sizes) -> Array:
    """The array of a keyword that a diagnosis, and `attnspec init`, look at first: lengths (B,)."""
    return keyword_array(keyword, str(KEYWORDS[keyword].sample), 1, sizes)
