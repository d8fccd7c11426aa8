"""Deals small problems in which every three features of a subject meet, used and left out: a covering array.

A feature is a keyword, or a trait of the sizes on which mistakes depend (several batch entries, groups of heads, one
query, more keys than a block). Most mistakes need two or three features at once (Kuhn, Wallace, Gallo 2004, "Software
fault interactions"), and a problem with a feature costs no more than one without: sizes cost, and these are small.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from operator import or_

import numpy as np

from attnspec.core.cache_keywords import CACHED
from attnspec.core.declaration import Limits
from attnspec.core.feature_coverage import (
    EMPTY_ROWS,
    GROUPS,
    LONG_PAST,
    MANY_KEYS,
    MANY_QUERIES,
    OTHER_LENGTH,
    OTHER_WIDTH,
    SEVERAL_ENTRIES,
    SEVERAL_GROUPS,
    SINGLE_QUERY,
    features_at,
    triples_in,
    triples_of,
    triples_taken,
)
from attnspec.core.keywords import BESIDE
from attnspec.core.nouns import Effort
from attnspec.problems.caches import past_by
from attnspec.problems.choices import Menu
from attnspec.problems.domain import Domain
from attnspec.problems.entries import words
from attnspec.problems.fitting import adapted, fitted
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe

FULL = 3
STRENGTH: Mapping[Effort, int] = {Effort.GLANCE: 2, Effort.QUICK: FULL, Effort.DEFAULT: FULL, Effort.THOROUGH: FULL}
"""How many features meet in every combination."""

CANDIDATES = 24
"""Rows that are made at random for each that is kept: the one that meets most combinations that are new. With 60 the
array of twenty features has 34 rows for 36.
"""

FEW, MANY = (5, 6), (67, 70)
"""Queries and keys: few, or more than the blocks of 16, 32 and 64 that kernels work in. None is a power of two."""

WIDTHS = 8, 6
"""D and Dv, where they differ."""

_Row = Mapping[str, bool]


@lru_cache(maxsize=64)
def deal_rows(factors: tuple[str, ...], strength: int, seed: int) -> tuple[Mapping[str, bool], ...]:
    """Rows of factors, used or left out, so that any `strength` of them meet in every combination in some row."""
    strength = min(strength, len(factors))
    groups = np.array(list(combinations(range(len(factors)), strength)), int)
    weights = 2 ** np.arange(strength)
    is_new = np.ones((len(groups), 2**strength), bool)
    rows: list[_Row] = []
    while is_new.any():
        candidates = words(seed, f"feature row {len(rows)}", (CANDIDATES, len(factors))) & 1
        # each candidate meets one combination that is new for certain, so that the search ends
        group, combination = np.argwhere(is_new)[0]
        candidates[:, groups[group]] = combination >> np.arange(strength) & 1
        met = candidates[:, groups] @ weights
        gains = np.take_along_axis(is_new, met.T, axis=1).sum(axis=0)
        best = int(gains.argmax())
        is_new[np.arange(len(groups)), met[best]] = False
        rows.append(dict(zip(factors, map(bool, candidates[best]), strict=True)))
    return tuple(rows)


def feature_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int,
                    offered: frozenset[str]) -> tuple[Recipe, ...]:
    """The problems in which the features of a subject meet that takes these keywords within these limits."""
    return FeatureArray(domain, limits, tuple(sorted(domain.sometimes & offered)), seed).recipes(STRENGTH[effort])


def traits_within(limits: Limits, keywords: Collection[str]) -> tuple[str, ...]:
    """The traits that problems of a subject may have that takes these keywords within these limits."""
    traits = {
        SEVERAL_ENTRIES: True, SEVERAL_GROUPS: not limits.single_head, GROUPS: limits.grouped is True,
        SINGLE_QUERY: True, OTHER_LENGTH: limits.lengths != "equal", MANY_QUERIES: True, MANY_KEYS: True,
        OTHER_WIDTH: not limits.ties_value_width, EMPTY_ROWS: "mask" in keywords, LONG_PAST: CACHED[0] in keywords}
    return tuple(name for name, is_possible in traits.items() if is_possible)


@dataclass(frozen=True)
class FeatureArray:
    """The features of a subject, and the problems in which they meet. optional: the keywords that it takes."""

    domain: Domain
    limits: Limits
    optional: tuple[str, ...]
    seed: int

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """What a row decides: of keywords that belong together one alone, and the traits that the limits leave."""
        keywords = [name for name in self.optional if not (name in BESIDE and BESIDE[name] < name)]
        return (*keywords, *traits_within(self.limits, self.optional))

    def recipes(self, strength: int) -> tuple[Recipe, ...]:
        """The problems, each once, in the order of their rows; behind them, at full strength, one for each triple that
        these do not meet: features that exclude each other, or that limits have moved, take its place in every row.
        """
        rows = deal_rows(self.factors, strength, self.seed % 2**24)
        made = {recipe.text: recipe for recipe in map(self._recipe, rows, range(len(rows)))}
        met = reduce(or_, (triples_of(features_of(recipe)) for recipe in made.values()), 0)
        possible = triples_taken(frozenset(self.optional), frozenset(self.factors))
        for triple in triples_in(possible & ~met) if strength == FULL else ():
            if triples_of(triple) & ~met:
                recipe = self._recipe({factor: factor in triple for factor in self.factors}, len(made))
                if triples_of(triple) & triples_of(features_of(recipe)):
                    made[recipe.text] = recipe
                    met |= triples_of(features_of(recipe))
        return tuple(made.values())

    def _recipe(self, row: _Row, turn: int) -> Recipe:
        sizes = adapted(fitted(self._sizes(row), self.limits), self.limits)
        menu = Menu(self.domain, self.limits, (sizes,), self.optional)
        masks = [name for name in self.domain.masks if name != "with_empty_rows"]
        mask = "with_empty_rows" if row.get(EMPTY_ROWS) else masks[turn % len(masks)]
        needed = {"mask": row.get(EMPTY_ROWS, False), CACHED[0]: row.get(LONG_PAST, False)}
        given = {name for name in self.optional if row.get(name) or needed.get(name)}
        used = frozenset(name for name in self.optional if name in given or BESIDE.get(name) in given)
        return menu.compose(sizes, used, mask, (self.seed + turn) % 2**24, turn)

    def _sizes(self, row: _Row) -> Sizes:
        """The sizes that have the traits of the row. B is never the number of key/value heads, nor H that of a group:
        what is broadcast along the wrong axis then shows as a wrong shape or a wrong number.
        """
        has_many_keys = row[MANY_KEYS] or row.get(LONG_PAST, False)
        T, S = MANY[0] if row[MANY_QUERIES] else FEW[0], MANY[1] if has_many_keys else FEW[1]
        if not row.get(OTHER_LENGTH):
            T = S = max(T, S)
        T = 1 if row[SINGLE_QUERY] else T
        kv_heads = 2 if row.get(SEVERAL_GROUPS) else 1
        group = 2 if row.get(GROUPS) else 1
        B = (2 if row[MANY_QUERIES] else 3) if row[SEVERAL_ENTRIES] else 1
        D, narrower = WIDTHS
        return Sizes(B, kv_heads * group, kv_heads, T, S, D, narrower if row.get(OTHER_WIDTH) else D)


def features_of(recipe: Recipe) -> frozenset[str]:
    """The features that a problem has, after all that limits have made of it."""
    past = past_by(recipe.value(CACHED[0]), recipe.sizes) if CACHED[0] in recipe.features else 0
    return features_at(recipe.sizes.by_axis, recipe.features, past, has_empty_rows=recipe.mask == "with_empty_rows")
