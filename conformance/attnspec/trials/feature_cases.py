"""The cases of a clause about features together: a covering array, and what makes up for triples that do not act in it.

Whether features act on the answer is known once the problem is made: a mask may hide what a bias would change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from attnspec.core.cache_keywords import CACHED
from attnspec.core.declaration import Limits
from attnspec.core.feature_coverage import (
    EMPTY_ROWS,
    GROUPS,
    GROUPS_OF_SEVERAL,
    LONG_PAST,
    MANY_KEYS,
    MANY_QUERIES,
    SEVERAL_GROUPS,
    SINGLE_QUERY,
    triple_behind,
    triples_of,
)
from attnspec.core.keywords import HIDING
from attnspec.core.nouns import DType, Effort
from attnspec.problems.domain import Domain
from attnspec.problems.entries import words
from attnspec.problems.feature_array import FeatureArray, Row, without_idle_flag
from attnspec.problems.make import make_problem
from attnspec.problems.recipe import Recipe
from attnspec.trials.acting_features import acting_features

FULL = 3
STRENGTH: Mapping[Effort, int] = {Effort.GLANCE: 2, Effort.QUICK: FULL, Effort.DEFAULT: FULL, Effort.THOROUGH: FULL}
"""How many features meet in every combination. At the full strength a triple that does not act is dealt again."""

TRIES, PATIENCE = 4, 10
"""How often a triple is dealt again until it acts, and how often in a row to no avail until none is any more."""

CANDIDATES = 8
"""Rows that are made at random for each that is dealt again: the one with most triples that are left is."""

_OFTEN = 0.4      # of the other features join a triple that is dealt again, …
_SELDOM = 0.1     # … and of those that cost so many
_COSTLY = frozenset({MANY_QUERIES, MANY_KEYS, LONG_PAST})
_MOST_HIDING = 4  # keywords that hide keys: with more, rows see one key or none, and show nothing
_NEEDED: Mapping[str, tuple[str, ...]] = {
    GROUPS_OF_SEVERAL: (GROUPS, SEVERAL_GROUPS), LONG_PAST: (CACHED[0],), EMPTY_ROWS: ("mask",)}


@lru_cache(maxsize=64)
def feature_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int,
                    offered: frozenset[str]) -> tuple[Recipe, ...]:
    """The problems in which the features of a subject meet that takes these keywords within these limits."""
    array = FeatureArray(domain, limits, tuple(sorted(domain.sometimes & offered)), seed)
    recipes = array.recipes(STRENGTH[effort])
    if STRENGTH[effort] < FULL:
        return recipes
    left = array.triples
    for recipe in recipes:
        left &= ~acting_triples(recipe)
    return (*recipes, *_Redealing(array, left, len(recipes)).recipes())


def acting_triples(recipe: Recipe) -> int:
    """The set of the triples that act in a problem, where conventions are the recommended ones."""
    # of widths visibility knows nothing, and narrow ones are made faster
    narrow = replace(recipe, sizes=replace(recipe.sizes, D=1, Dv=1))
    return triples_of(acting_features(recipe, make_problem(narrow, DType.FLOAT32), {}))


@dataclass(slots=True)
class _Redealing:
    """Deals triples again, among other features each time. left: those that act in no problem so far."""

    array: FeatureArray
    left: int
    turn: int
    misses: dict[frozenset[str], int] = field(default_factory=dict)

    def recipes(self) -> Iterator[Recipe]:
        """The problems in which some act that are left."""
        idle = 0
        while self.left and idle < PATIENCE:
            self.turn += 1
            aim, row = self._best_row()
            recipe = self.array.recipe(row, self.turn)
            gained = acting_triples(recipe) & self.left
            self.left &= ~gained
            self._remember(aim)
            idle = 0 if gained else idle + 1
            if gained:
                yield recipe

    def _remember(self, aim: frozenset[str]) -> None:
        """Give up a triple that was missed often enough."""
        if triples_of(aim) & self.left:
            self.misses[aim] = self.misses.get(aim, 0) + 1
            self.left &= ~triples_of(aim) if self.misses[aim] == TRIES else -1

    def _best_row(self) -> tuple[frozenset[str], Row]:
        """A triple that is left, and the row with it that has most of the others."""
        shares = words(self.array.seed % 2**24, f"feature row again {self.turn}",
                       (CANDIDATES, len(self.array.factors) + 1)) / 2**32
        drawn = []
        for first, *rest in shares.tolist():
            aim = triple_behind(self.left, first)
            drawn.append((aim, self._row(aim, dict(zip(self.array.factors, rest, strict=True)))))
        return max(drawn, key=lambda each: (self.left & triples_of(_features(each[1]))).bit_count())

    def _row(self, aim: frozenset[str], shares: Mapping[str, float]) -> Row:
        """The triple, and any of the other features that leave it something to show."""
        row = {factor: factor in aim for factor in self.array.factors}
        row.update(dict.fromkeys((needed for name in aim for needed in _NEEDED.get(name, ())), True))
        joining = [name for name, share in shares.items() if share < (_SELDOM if name in _COSTLY else _OFTEN)]
        for factor in sorted(joining, key=lambda name: shares[name]):
            row[factor] |= factor not in HIDING or sum(row[name] for name in HIDING if name in row) < _MOST_HIDING
        if not {SINGLE_QUERY, MANY_QUERIES} - {name for name in row if row[name]}:
            row[SINGLE_QUERY if MANY_QUERIES in aim else MANY_QUERIES] = False
        # where queries count from the first key, the flag leaves keys beyond a block to queries beyond one
        if row.get("causal") and row[MANY_KEYS] and not (row.get(CACHED[0]) or row[SINGLE_QUERY]):
            row[MANY_QUERIES] = True
        return row if {"causal", SINGLE_QUERY} <= aim else without_idle_flag(row)


def _features(row: Row) -> frozenset[str]:
    """What a row asks for."""
    asked = frozenset(name for name in row if row[name])
    return asked | {GROUPS_OF_SEVERAL} if asked >= {GROUPS, SEVERAL_GROUPS} else asked
