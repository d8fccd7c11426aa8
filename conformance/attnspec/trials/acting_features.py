"""Which features of a problem act on its answer, so that a mix-up of theirs would show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from attnspec.core.feature_coverage import BLOCK, EMPTY_ROWS, MANY_KEYS, MANY_QUERIES
from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, KEYWORDS, OFF
from attnspec.numerics.expectation import visible_keys
from attnspec.problems.feature_array import features_of
from attnspec.problems.problem import Array, Problem
from attnspec.problems.recipe import Recipe

LEAST_KEYS = 2
"""One key has all of the weight, whatever its logit: with so many, a logit shows."""


def acting_features(recipe: Recipe, problem: Problem, conventions: Mapping[str, str]) -> frozenset[str]:
    """The features that change what some row of the answer is; none where every row is empty. problem: the recipe's.

    A keyword that hides keys acts where some row sees more without it, one of logits where a row weighs one key
    against another, a past where it has a key, a block where something in it is seen.
    """
    visible = visible_keys(problem, conventions)
    if not visible.any():
        return frozenset()
    features = features_of(recipe)
    idle_keywords = {name for name in features & KEYWORDS.keys() if not _acts(name, problem, visible, conventions)}
    return features - idle_keywords - {*_idle_traits(problem, visible)}


def _acts(keyword: str, problem: Problem, visible: Array, conventions: Mapping[str, str]) -> bool:
    """Whether the answer is another with this keyword. visible: (B,H,T,S)."""
    if problem.query_lengths is not None and keyword == "query_lengths":  # of rows beyond them nothing is asked
        return bool((problem.query_lengths < problem.sizes.T).any())
    match KEYWORDS[keyword].acts:
        case Acts.KEYS:
            return problem.past > 0
        case Acts.LOGITS:
            return keyword == "sinks" or bool(visible.sum(axis=-1).max() >= LEAST_KEYS)
        case Acts.VISIBILITY:
            off = {name: OFF[name] for name in (keyword, BESIDE.get(keyword, keyword))}
            return bool((visible_keys(problem.but(**off), conventions) != visible).any())
    return True


def _idle_traits(problem: Problem, visible: Array) -> Iterator[str]:
    """The traits of which no row shows anything. visible: (B,H,T,S)."""
    if not visible[:, :, BLOCK:].any():
        yield MANY_QUERIES
    if not visible[..., BLOCK:].any():
        yield MANY_KEYS
    B, _, T, _ = visible.shape
    asked = np.full(B, T) if problem.query_lengths is None else problem.query_lengths
    is_asked = np.arange(T) < asked[:, None]
    if not (is_asked[:, None] & ~visible.any(axis=-1)).any():
        yield EMPTY_ROWS
