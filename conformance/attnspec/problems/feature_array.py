"""Deals small problems in which every three features of a subject meet, used and left out: a covering array.

A feature is a keyword, or a trait of the sizes on which mistakes depend (several batch entries, groups of heads, one
query, more keys than a block). Most mistakes need two or three features at once (Kuhn, Wallace, Gallo 2004, "Software
fault interactions"), and a problem with a feature costs no more than one without: sizes cost, and these are small.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, count

import numpy as np

from attnspec.core.coverage import (
    EMPTY_ROWS,
    GROUPS,
    GROUPS_OF_SEVERAL,
    LONG_PAST,
    MANY_KEYS,
    MANY_QUERIES,
    OTHER_LENGTH,
    OTHER_WIDTH,
    PAST,
    SEVERAL_ENTRIES,
    SEVERAL_GROUPS,
    SINGLE_QUERY,
    features_at,
    triples_taken,
)
from attnspec.core.declaration import Limits
from attnspec.core.keywords import BESIDE, CACHED
from attnspec.problems.choices import Menu
from attnspec.problems.demand import adapt_sizes, fit_to_limits
from attnspec.problems.domain import Domain
from attnspec.problems.families import random_words
from attnspec.problems.keyword_arrays import past_by
from attnspec.problems.problem import Recipe, Sizes

CANDIDATES = 24
"""Rows that are made at random for each that is kept: the one that meets most combinations that are new. With 60 the
array of twenty features has 34 rows for 36.
"""

FEW, MANY = (5, 6), (67, 70)
"""Queries and keys: few, or more than the blocks of 16, 32 and 64 that kernels work in. None is a power of two."""

WIDTHS = 8, 6
"""D and Dv, where they differ."""

Row = Mapping[str, bool]
"""Of each factor, whether it is used."""


@lru_cache(maxsize=64)
def deal_rows(factors: tuple[str, ...], strength: int, seed: int) -> tuple[Row, ...]:
    """Rows of factors, used or left out, so that any `strength` of them meet in every combination in some row."""
    strength = min(strength, len(factors))
    groups = np.array(list(combinations(range(len(factors)), strength)), int)
    weights = 2 ** np.arange(strength)
    is_new = np.ones((len(groups), 2**strength), bool)
    rows: list[Row] = []
    while is_new.any():
        candidates = random_words(seed, f"feature row {len(rows)}", (CANDIDATES, len(factors))) & 1
        # each candidate meets one combination that is new for certain, so that the search ends
        group, combination = np.argwhere(is_new)[0]
        candidates[:, groups[group]] = combination >> np.arange(strength) & 1
        met = candidates[:, groups] @ weights
        gains = np.take_along_axis(is_new, met.T, axis=1).sum(axis=0)
        best = int(gains.argmax())
        is_new[np.arange(len(groups)), met[best]] = False
        rows.append(dict(zip(factors, map(bool, candidates[best]), strict=True)))
    return tuple(rows)


def traits_within(limits: Limits, keywords: Collection[str]) -> tuple[str, ...]:
    """The traits that problems of a subject may have that takes these keywords within these limits."""
    traits = {
        SEVERAL_ENTRIES: True, SEVERAL_GROUPS: not limits.single_head, GROUPS: limits.grouped is True,
        SINGLE_QUERY: True, OTHER_LENGTH: limits.lengths != "equal", MANY_QUERIES: True, MANY_KEYS: True,
        OTHER_WIDTH: not limits.ties_value_width, EMPTY_ROWS: "mask" in keywords, LONG_PAST: CACHED[0] in keywords,
        GROUPS_OF_SEVERAL: limits.grouped is True and not limits.single_head}
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
        traits = (name for name in traits_within(self.limits, self.optional) if name != GROUPS_OF_SEVERAL)
        return (*keywords, *traits)

    @cached_property
    def triples(self) -> int:
        """The set of the triples that the problems may meet."""
        return triples_taken(frozenset(self.optional), frozenset(traits_within(self.limits, self.optional)))

    def recipes(self, strength: int) -> tuple[Recipe, ...]:
        """The problems, each once, in the order of their rows."""
        rows = map(without_idle_flag, deal_rows(self.factors, strength, self.seed % 2**24))
        return tuple({recipe.text: recipe for recipe in map(self.recipe, rows, count())}.values())

    def recipe(self, row: Row, turn: int) -> Recipe:
        """The problem of a row. Masks, values and families take turns, but for what the row asks of them."""
        sizes = adapt_sizes(fit_to_limits(self._sizes(row), self.limits), self.limits)
        menu = Menu(self.domain, self.limits, (sizes,), self.optional)
        masks = [name for name in self.domain.masks if name != "with_empty_rows"]
        mask = "with_empty_rows" if row.get(EMPTY_ROWS) else masks[turn % len(masks)]
        needed = {"mask": row.get(EMPTY_ROWS, False), CACHED[0]: row.get(LONG_PAST, False)}
        given = {name for name in self.optional if row.get(name) or needed.get(name)}
        used = frozenset(name for name in self.optional if name in given or BESIDE.get(name) in given)
        long = [name for name in menu.values(CACHED[0]) if past_by(name, sizes) > PAST] if row.get(LONG_PAST) else []
        chosen = {CACHED[0]: long[turn % len(long)]} if long else {}
        return menu.compose(sizes, used, mask, (self.seed + turn) % 2**24, turn, chosen=chosen)

    def _sizes(self, row: Row) -> Sizes:
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


def without_idle_flag(row: Row) -> Row:
    """The row without the causal flag where that would leave one key to a single query: nothing else would show."""
    is_idle = row[SINGLE_QUERY] and not (row.get(CACHED[0]) or row.get(LONG_PAST))
    return {**row, "causal": False} if is_idle else row


def features_of(recipe: Recipe) -> frozenset[str]:
    """The features that a problem has, after all that limits have made of it."""
    past = past_by(recipe.value(CACHED[0]), recipe.sizes) if CACHED[0] in recipe.features else 0
    return features_at(recipe.sizes.by_axis, recipe.features, past, has_empty_rows=recipe.mask == "with_empty_rows")
