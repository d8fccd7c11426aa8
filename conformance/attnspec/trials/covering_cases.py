"""Deals the cases that a trial begins with, and those of clauses that need no search.

All that matters comes up early. A clause about features together has a covering array, and further
cases for triples that do not act in it: a mask may hide what a bias would change, which is known
once the problem is made.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, combinations, product
from typing import TypeVar

import numpy as np

from attnspec.core.coverage import (
    BLOCK,
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
from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS, FULL_STRENGTH
from attnspec.core.forms import EVERY_VALUED
from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, CACHED, HIDING, KEYWORDS, OFF
from attnspec.core.nouns import DType, Effort
from attnspec.numerics.operands import visible_keys
from attnspec.problems.choices import (
    FAMILIES_A_CALL,
    MOST_SMALL_LOGITS,
    SEED_BYTES,
    FeatureArray,
    Menu,
    Row,
    byte_for,
    features_of,
    shapes_for,
    without_idle_flag,
)
from attnspec.problems.domain import GENERIC_KINDS, Domain, spell_domain
from attnspec.problems.families import random_words
from attnspec.problems.make import make_problem, model_width
from attnspec.problems.problem import Array, Problem, Recipe, Sizes, count_logits

MIN_KEYS = 2
"""One key has all of the weight, whatever its logit: with so many, a logit shows."""


def acting_features(recipe: Recipe, problem: Problem,
                    conventions: Mapping[str, str]) -> frozenset[str]:
    """The features of a recipe's problem that change some row of the answer; none if all rows are
    empty.

    A keyword that hides keys acts where some row sees more without it, one of logits where a row
    weighs one key against another, a past where it has a key, a block where something in it is
    seen.
    """
    visible = visible_keys(problem, conventions)
    if not visible.any():
        return frozenset()
    features = features_of(recipe)
    idle_keywords = {name for name in features & KEYWORDS.keys()
                     if not _is_acting(name, problem, visible, conventions)}
    return features - idle_keywords - {*_idle_traits(problem, visible)}


def _is_acting(keyword: str, problem: Problem, visible: Array,
               conventions: Mapping[str, str]) -> bool:
    """Whether the answer changes with this keyword.  visible: (B,H,T,S)."""
    # of rows beyond them nothing is asked
    if problem.query_lengths is not None and keyword == "query_lengths":
        return bool((problem.query_lengths < problem.sizes.T).any())
    match KEYWORDS[keyword].acts:
        case Acts.KEYS:
            return problem.past > 0
        case Acts.LOGITS:
            return keyword == "sinks" or bool(visible.sum(axis=-1).max() >= MIN_KEYS)
        case Acts.VISIBILITY:
            off = {name: OFF[name] for name in (keyword, BESIDE.get(keyword, keyword))}
            return bool((visible_keys(problem.but(**off), conventions) != visible).any())
    return True


def _idle_traits(problem: Problem, visible: Array) -> Iterator[str]:
    """The traits that show in no row.  visible: (B,H,T,S)."""
    if not visible[:, :, BLOCK:].any():
        yield MANY_QUERIES
    if not visible[..., BLOCK:].any():
        yield MANY_KEYS
    B, _, T, _ = visible.shape
    lengths = np.full(B, T) if problem.query_lengths is None else problem.query_lengths
    is_present = np.arange(T) < lengths[:, None]
    if not (is_present[:, None] & ~visible.any(axis=-1)).any():
        yield EMPTY_ROWS


MAX_TRIES, MAX_IDLE_TRIES = 4, 10
"""How often a triple is dealt again until it acts, and how many idle deals in a row end it all."""

CANDIDATE_ROWS = 8
"""Random rows for each deal, of which the one with most missing triples is taken."""

_JOIN_SHARE = 0.4      # of the other features join a triple that is dealt again, …
_COSTLY_JOIN_SHARE = 0.1     # … and of those that cost so many
_COSTLY_FEATURES = frozenset({MANY_QUERIES, MANY_KEYS, LONG_PAST})
_MAX_HIDING = 4  # keywords that hide keys: with more, rows see one key or none, and show nothing
_NEEDED_FEATURES: Mapping[str, tuple[str, ...]] = {
    GROUPS_OF_SEVERAL: (GROUPS, SEVERAL_GROUPS), LONG_PAST: (CACHED[0],), EMPTY_ROWS: ("mask",)}


@lru_cache(maxsize=64)
def feature_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int,
                    keywords: frozenset[str]) -> tuple[Recipe, ...]:
    """The problems in which the features of a subject with these keywords and limits meet."""
    array = FeatureArray(domain, limits, tuple(sorted(domain.sometimes & keywords)), seed)
    recipes = array.recipes(EFFORTS[effort].strength)
    if EFFORTS[effort].strength < FULL_STRENGTH:
        return recipes
    missing = array.triples
    for recipe in recipes:
        missing &= ~acting_triples(recipe)
    return (*recipes, *_TripleRedealing(array, missing, len(recipes)).recipes())


def acting_triples(recipe: Recipe) -> int:
    """The set of the triples that act in a problem under the recommended conventions."""
    # of widths visibility knows nothing, and narrow ones are made faster
    narrow = replace(recipe, sizes=replace(recipe.sizes, D=1, Dv=1))
    return triples_of(acting_features(recipe, make_problem(narrow, DType.FLOAT32), {}))


@dataclass(slots=True)
class _TripleRedealing:
    """Deals triples again, among other features.

    cases_left: the triples that act nowhere yet.
    """

    array: FeatureArray
    cases_left: int
    turn: int
    misses: dict[frozenset[str], int] = field(default_factory=dict)

    def recipes(self) -> Iterator[Recipe]:
        """The problems in which some of the missing triples act."""
        idle = 0
        while self.cases_left and idle < MAX_IDLE_TRIES:
            self.turn += 1
            aim, row = self._best_row()
            recipe = self.array.recipe(row, self.turn)
            gain = acting_triples(recipe) & self.cases_left
            self.cases_left &= ~gain
            self._remember(aim)
            idle += 1
            if gain:
                idle = 0
                yield recipe

    def _remember(self, aim: frozenset[str]) -> None:
        """Gives up a triple that was missed often enough."""
        if triples_of(aim) & self.cases_left:
            self.misses[aim] = self.misses.get(aim, 0) + 1
            if self.misses[aim] == MAX_TRIES:
                self.cases_left &= ~triples_of(aim)

    def _best_row(self) -> tuple[frozenset[str], Row]:
        """A missing triple, and the row with it that has most of the others."""
        shares = random_words(self.array.seed % 2**24, f"feature row again {self.turn}",
                              (CANDIDATE_ROWS, len(self.array.factors) + 1)) / 2**32
        candidates = []
        for first, *rest in shares.tolist():
            aim = triple_behind(self.cases_left, first)
            row = self._row(aim, dict(zip(self.array.factors, rest, strict=True)))
            candidates.append((aim, row))

        def gain(candidate: tuple[frozenset[str], Row]) -> int:
            return (self.cases_left & triples_of(_features_of_row(candidate[1]))).bit_count()

        return max(candidates, key=gain)

    def _row(self, aim: frozenset[str], shares: Mapping[str, float]) -> Row:
        """The triple, with random other features that leave it something to show."""
        row = {factor: factor in aim for factor in self.array.factors}
        for name in aim:
            row.update(dict.fromkeys(_NEEDED_FEATURES.get(name, ()), True))
        joining = [name for name, share in shares.items()
                   if share < (_COSTLY_JOIN_SHARE if name in _COSTLY_FEATURES else _JOIN_SHARE)]
        for factor in sorted(joining, key=lambda name: shares[name]):
            hiding = sum(row.get(name, False) for name in HIDING)
            row[factor] |= factor not in HIDING or hiding < _MAX_HIDING
        if row.get(SINGLE_QUERY) and row.get(MANY_QUERIES):
            row[SINGLE_QUERY if MANY_QUERIES in aim else MANY_QUERIES] = False
        # where queries count from the first key, the flag leaves keys beyond a block to queries
        # beyond one
        if row.get("causal") and row[MANY_KEYS] and not (row.get(CACHED[0]) or row[SINGLE_QUERY]):
            row[MANY_QUERIES] = True
        if {"causal", SINGLE_QUERY} <= aim:
            return row
        return without_idle_flag(row)


def _features_of_row(row: Row) -> frozenset[str]:
    """The features for which a row asks."""
    features = frozenset(name for name in row if row[name])
    if features >= {GROUPS, SEVERAL_GROUPS}:
        return features | {GROUPS_OF_SEVERAL}
    return features


FIXED_KINDS = frozenset(
    {"gaussian", "worked_example", "acceptance", "score", "dropout", "features"}) | GENERIC_KINDS
CHANCE_KINDS = frozenset({"generic", "long", "panel", "dropout"})
"""The kinds of problems on which a law of chance is tried (`EffortNumbers.chances`)."""


def fixed_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int,
                  keywords: frozenset[str] = frozenset()) -> tuple[Recipe, ...]:
    """The recipes of the kinds that are not searched, none for the others.

    keywords: those that the subject takes. A statistical clause must not be searched: looking for
    the worst of many draws would void its false-alarm rate.
    """
    if domain.kind not in FIXED_KINDS:
        return ()
    domain = replace(domain, masks=domain.masks_within(limits))
    if domain.kind == "features":
        return feature_recipes(domain, limits, effort, seed, keywords)
    shapes = shapes_for(domain, limits, effort)
    if domain.kind in CHANCE_KINDS:
        features = _keyword_sets(sorted(domain.sometimes & keywords))
        count = EFFORTS[effort].chances[domain.kind]
        cases = [sizes for sizes in shapes for _ in range(count)]
        return tuple(_generic_recipe(domain, sizes, features, index, seed)
                     for index, sizes in enumerate(cases))
    mask = domain.masks[0] if "mask" in domain.always else "none"
    return tuple(
        Recipe(sizes, domain.families[:1], mask, domain.always, seed % 2**24, inputs=limits.inputs,
               M=model_width(sizes, limits) if domain.is_layer else 0)
        for sizes in shapes)


def _keyword_sets(optional: Sequence[str]) -> tuple[frozenset[str], ...]:
    """No keyword, each alone, then all pairs."""
    return tuple(map(frozenset, chain([()], combinations(optional, 1), combinations(optional, 2))))


def _generic_recipe(domain: Domain, sizes: Sizes, features: Sequence[frozenset[str]], index: int,
                    seed: int) -> Recipe:
    """The problem with this index: keywords, masks, scales and first families take turns."""
    keywords = domain.always | features[index % len(features)]
    first = index * sizes.Hkv % len(domain.families)
    families = (*domain.families[first:], *domain.families[:first])
    mask, bias, scale = "none", "normal", 1.0
    if "mask" in keywords:
        mask = domain.masks[index % len(domain.masks)]
    if "bias" in keywords:
        bias = domain.biases[index % len(domain.biases)]
    if "scale" in keywords:
        scale = domain.scales[index % len(domain.scales)]
    values = {name: each[index % len(each)] for name, each in domain.values.items()
              if name in keywords}
    return Recipe(sizes, families, mask, keywords, (seed + index) % 2**24, bias=bias, scale=scale,
                  values=values)


Choices = tuple[bytes, *tuple[int, ...]]
"""What Hypothesis would have drawn: the menu's bytes, and a number for each drawn value."""

TELLING_FAMILIES = ("log_normal", "integers", "student_t", "huge_logits")
"""The families that convict most: together they show every fault that values alone can show."""

_MIN_KEYWORDS_MIXED = 3
"""So many keywords have combinations that are neither all of them, nor one alone, nor none."""

Card = TypeVar("Card")


def deal_openings(menu: Menu, seed: int, count: int) -> tuple[Choices, ...]:
    """The first `count` cases of a trial; they follow from menu and seed alone."""
    columns = [_shape_column(menu, seed, count), *_keyword_columns(menu, seed, count),
               *_value_columns(menu, seed, count)]
    return _join_columns(columns, menu, seed, count)


def sample_openings(menu: Menu, seed: int, openings: int, count: int) -> tuple[Choices, ...]:
    """`count` cases that stand for the first openings: from small to large, all keywords in the
    first.

    There are fewer where the openings have fewer sizes.
    """
    sizes = spread_cards(sorted(menu.shapes[:openings], key=count_logits), count)
    keywords = [spread_cards(column[::-1], len(sizes))[::-1]
                for column in _keyword_columns(menu, seed, openings)]
    shapes = [_byte_of_shape(menu, each) for each in sizes]
    return _join_columns([shapes, *keywords, *_value_columns(menu, seed, len(sizes))], menu, seed,
                         len(sizes))


def _join_columns(columns: Sequence[Sequence[int]], menu: Menu, seed: int,
                  count: int) -> tuple[Choices, ...]:
    """The cases with these bytes, each with the seed of its entries and its drawn values."""
    if not count:
        return ()
    # little-endian, so that the bytes are the same on every machine
    seed_words = random_words(seed, "opening seeds", (count,)).astype("<u4")
    seeds = seed_words.view(np.uint8).reshape(count, -1)[:, :SEED_BYTES]
    draws = [random_words(seed, f"opening {name}", (count,)) >> np.uint32(16)
             for name in menu.draws]
    cases = list[Choices]()
    for i in range(count):
        choices = bytes(column[i] for column in columns) + seeds[i].tobytes()
        cases.append((choices, *(int(numbers[i]) for numbers in draws)))
    return tuple(cases)


def spread_cards(cards: Sequence[Card], count: int) -> tuple[Card, ...]:
    """So many of the cards at even distances, in their order, with the last one."""
    count = min(count, len(cards))
    return tuple(cards[len(cards) * (place + 1) // count - 1] for place in range(count))


def choices_in_wider_menu(menu: Menu, choices: Choices, wider: Menu) -> Choices:
    """The bytes that make the same case in a menu with these shapes and more."""
    entries, *draws = choices
    # the first byte chooses the shape, and what follows means the same in both menus
    shape = _byte_of_shape(wider, menu.chosen_shape(entries))
    return bytes([shape, *entries[1:]]), *draws


def seed_of(seed: int, domain: Domain) -> int:
    """The seed of a clause's cases in a run with this seed.

    Clauses about the same problems have the same seed: what a subject answered and what the
    definition says is remembered, and so serves all of them.
    """
    return zlib.crc32(f"{seed}:{spell_domain(domain)}".encode())


def _deal_for_ever(deck: Sequence[Card], seed: int, label: str) -> Iterator[Card]:
    """The cards of a deck in random order, again and again."""
    turn = 0
    while True:
        for place in _shuffle_numbers(seed, f"opening {label} {turn}", len(deck)):
            yield deck[place]
        turn += 1


@lru_cache(maxsize=2**14)
def _shuffle_numbers(seed: int, label: str, count: int) -> tuple[int, ...]:
    """The numbers below `count` in random order; every dtype of a clause asks for the same."""
    return tuple(np.argsort(random_words(seed, label, (count,)), kind="stable").tolist())


def _take_cards(cards: Iterator[Card], count: int) -> list[Card]:
    return [next(cards) for _ in range(count)]


def _shape_column(menu: Menu, seed: int, count: int) -> list[int]:
    """Each shape once, in the order of dealing; after that the small ones."""
    small = [sizes for sizes in menu.shapes
             if count_logits(sizes) <= MOST_SMALL_LOGITS] or menu.shapes
    shapes = list(menu.shapes[:count])
    shapes += _take_cards(_deal_for_ever(small, seed, "small shapes"), count - len(shapes))
    return [_byte_of_shape(menu, sizes) for sizes in shapes]


def _byte_of_shape(menu: Menu, sizes: Sizes) -> int:
    """The byte that makes this shape of a menu."""
    return byte_for(menu.weighted_shapes.index(sizes), len(menu.weighted_shapes))


def _keyword_columns(menu: Menu, seed: int, count: int) -> list[list[int]]:
    """One column for each keyword: first all together, then each alone, then other combinations.

    With few keywords there are hardly others, and any combination may follow, since large sizes
    come last; but not at many keys of few queries, most of which the causal flag would hide.
    """
    n = len(menu.optional)
    if not n:
        return []
    # of a single keyword, alone and all together are the same case
    leading = [(True,) * n]
    if n > 1:
        leading += [tuple(place == alone for place in range(n)) for alone in range(n)]
    combinations_of_all = list(product((True, False), repeat=n))
    others = [used for used in combinations_of_all if used not in leading]
    cards = leading + _take_cards(_deal_for_ever(others, seed, "keywords"),
                                  max(0, count - len(leading)))
    cards = cards[:count]
    if n < _MIN_KEYWORDS_MIXED:
        any_of_them = _deal_for_ever(combinations_of_all, seed, "any keywords")
        for index in range(len(combinations_of_all), len(cards)):
            if _sees_most_keys(menu, index):
                cards[index] = next(any_of_them)
    return [[255 * used[place] for used in cards] for place in range(n)]


def _sees_most_keys(menu: Menu, index: int) -> bool:
    """Whether queries see most keys under the causal flag at the size of this opening."""
    return index < len(menu.shapes) and 2 * menu.shapes[index].T >= menu.shapes[index].S


def _value_lists(menu: Menu) -> Iterator[tuple[str, int]]:
    yield "masks", len(menu.domain.masks)
    yield "biases", len(menu.domain.biases)
    yield "scales", len(menu.domain.scales)
    yield "inputs", max(len(menu.input_kinds(sizes)) for sizes in menu.shapes)
    for name in menu.valued_keywords:
        yield EVERY_VALUED[name].plural, len(menu.values(name))


def _value_column(seed: int, label: str, size: int, count: int) -> list[int]:
    return [byte_for(index, size)
            for index in _take_cards(_deal_for_ever(range(size), seed, label), count)]


def _value_columns(menu: Menu, seed: int, count: int) -> list[list[int]]:
    """The columns that neither sizes nor keywords fill."""
    return [*(_value_column(seed, label, size, count) for label, size in _value_lists(menu)),
            *_family_columns(menu, seed, count)]


def _family_columns(menu: Menu, seed: int, count: int) -> list[list[int]]:
    """The number of families, always the most; then one that convicts much, and any others."""
    families = menu.domain.families
    every_index = range(len(families))
    telling = [families.index(name) for name in TELLING_FAMILIES if name in families]
    first = _deal_for_ever(telling or every_index, seed, "telling")
    rest = _deal_for_ever(every_index, seed, "families")
    rows = [[next(first), *_take_cards(rest, FAMILIES_A_CALL - 1)] for _ in range(count)]
    numbers = [[byte_for(row[place], len(families)) for row in rows]
               for place in range(FAMILIES_A_CALL)]
    return [[255] * count, *numbers]
