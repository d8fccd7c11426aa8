"""What a recipe is chosen from, and which bytes stand for which choice; and problems in which
features meet in threes.

All choices are bytes, so that one draw makes a recipe: an example costs Hypothesis 0.5 ms so,
against 1.1 ms for a dozen integers (a single integer costs 0.5 ms as well), and no two choices
come out alike as its mutations of integers make them. Byte 0 stands for the smallest shape, no
optional keyword, one family, the first of each list, and seed 0. The seed comes last: the next
larger number is the same problem with other entries.

Small problems are dealt in which every three features of a subject meet, used and left out: a
covering array.

A feature is a keyword, or a trait of the sizes on which mistakes depend (several batch entries,
groups of heads, one query, more keys than a block). Most mistakes need two or three features at
once (Kuhn, Wallace, Gallo 2004, "Software fault interactions"), and a problem with a feature costs
no more than one without: sizes cost, and these are small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, combinations, count
from types import MappingProxyType
from typing import Any, TypeVar

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
from attnspec.core.effort import EFFORTS
from attnspec.core.forms import EVERY_VALUED
from attnspec.core.keywords import BESIDE, CACHED
from attnspec.core.nouns import Effort
from attnspec.problems.demand import Demand, adapt_sizes, fit_to_limits, nearest_sizes
from attnspec.problems.domain import GENERIC_KINDS, Domain, Kind
from attnspec.problems.families import random_words
from attnspec.problems.keyword_arrays import count_past
from attnspec.problems.make import model_width
from attnspec.problems.problem import Recipe, Sizes, count_logits, count_work
from attnspec.problems.size_plan import SIMPLEST_SIZES, SizePlan

# A head for each generic family; the second is for subjects whose one input is query and key alike, and whose widths
# are three times that. No square roots of these widths are exact.
_PANEL_SIZES = (Sizes(1, 7, 7, 16, 128, 72, 64), Sizes(1, 7, 7, 64, 64, 40, 40))
#                                B  H Hkv  T   S  D  Dv
SIZES_OF_KIND: Mapping[Kind, tuple[Sizes, ...]] = {
    "gaussian": (Sizes(16, 4, 4, 1, 64, 4, 4), Sizes(16, 4, 4, 1, 64, 16, 16),
                 Sizes(16, 4, 4, 1, 64, 64, 64),
                 Sizes(4, 4, 4, 1, 64, 256, 256)),
    "worked_example": (Sizes(1, 1, 1, 4, 4, 4, 4),),
    "acceptance": (Sizes(10, 4, 4, 100, 100, 16, 16),),
    "generic": (Sizes(2, 4, 4, 16, 64, 32, 32), _PANEL_SIZES[0], _PANEL_SIZES[1],
                Sizes(2, 4, 4, 33, 129, 24, 48),
                Sizes(1, 8, 4, 7, 300, 80, 64), Sizes(1, 4, 4, 128, 128, 16, 16),
                Sizes(1, 7, 7, 8, 513, 33, 32)),
    # 1025: one key past the end of a chunk
    "long": (Sizes(1, 7, 7, 2, 1025, 48, 64), Sizes(1, 4, 4, 3, 2048, 32, 32),
             Sizes(1, 2, 2, 4, 4096, 80, 128)),
    "panel": _PANEL_SIZES,
    # 480 head slices; a width whose root is exact in every format, and one whose root is in none; and so few keys that
    # a sum in a half format loses none of them
    "score": (Sizes(120, 4, 4, 32, 32, 16, 16), Sizes(120, 4, 4, 32, 32, 24, 24),
              Sizes(120, 4, 4, 16, 4, 16, 16)),
    # thousands of weights, none of which is too small to be seen; blocks of 16 to 128; heads that share keys
    "dropout": (Sizes(2, 4, 4, 32, 64, 16, 64), Sizes(1, 2, 2, 144, 136, 8, 136),
                Sizes(3, 6, 2, 24, 40, 24, 40)),
}
# Half of the head slices: the law holds for any number of them, and tells drifts that are larger by a root of 2.
_GLANCED_SIZES_OF_KIND: Mapping[Kind,
                                tuple[Sizes, ...]] = {"score": (Sizes(60, 4, 4, 32, 32, 24, 24),)}


def has_any(domain: Domain, limits: Limits) -> bool:
    """Whether clause and limits leave any problem: one that is as small as both allow."""
    if domain.kind in SIZES_OF_KIND:
        return bool(shapes_for(domain, limits, Effort.THOROUGH))
    demand = Demand(domain, projects=domain.is_layer)
    return any(demand.fit_sizes(sizes, limits) for sizes in SIMPLEST_SIZES)


@lru_cache(maxsize=64)
def shapes_for(domain: Domain, limits: Limits, effort: Effort, seed: int = 0) -> tuple[Sizes, ...]:
    """The sizes of a kind that brings its own, or else what a plan deals to this domain alone.

    None if clause and limits rule each other out. Grouped heads come up under `grouped: maybe`
    only where the subject declares that it takes them.
    """
    if domain.kind not in SIZES_OF_KIND:
        demand = Demand(domain, projects=domain.is_layer)
        return SizePlan((demand,), limits, effort, seed).rows(demand)
    fixed = [sizes for sizes in _kind_sizes(domain.kind, limits, effort)
             if _may_be_put(sizes, domain, limits) and _has_its_number(sizes, limits)]
    # a lower effort tries the first ones alone
    tried = EFFORTS[effort].shapes.get(domain.kind, len(fixed))
    # limits may make two sizes one
    made = _distinct_sizes(adapt_sizes(sizes, limits) for sizes in fixed[:tried])
    refuses, always = bool(limits.all_refusals), domain.always_within(limits)
    return tuple(sizes for sizes in made
                 if not (refuses and limits.misfit_of(sizes.by_axis, always)))


def _has_its_number(sizes: Sizes, limits: Limits) -> bool:
    """Whether nothing but widths changes where the subject takes it: laws of chance count slices
    and lengths.
    """
    moved = nearest_sizes(sizes, limits)
    return replace(moved, D=sizes.D, Dv=sizes.Dv) == sizes


def _kind_sizes(kind: Kind, limits: Limits, effort: Effort) -> tuple[Sizes, ...]:
    """The kind's own sizes; a subject of one head has as many head slices in its batch, where
    their number counts.
    """
    glanced = _GLANCED_SIZES_OF_KIND if effort is Effort.GLANCE else {}
    sizes = glanced.get(kind, SIZES_OF_KIND[kind])
    # laws of chance count head slices, whether they are heads or batch entries
    if (kind in {"score", "dropout"} or kind in GENERIC_KINDS) and limits.single_head:
        return tuple(replace(each, B=each.B * each.H, H=1, Hkv=1) for each in sizes)
    return sizes


def _distinct_sizes(sizes: Iterable[Sizes]) -> tuple[Sizes, ...]:
    return tuple(dict.fromkeys(sizes))


def _may_be_put(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a size that a kind brings along suits the subject; grouped heads come up only where
    they are declared.
    """
    is_grouped = sizes.Hkv < sizes.H
    return _inputs_fit(sizes, domain, limits) and (not is_grouped or limits.grouped is True)


def _inputs_fit(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """One input that serves as query and key alike has T = S; further limits on lengths are the
    subject's own.
    """
    if (limits.self_attention_only or domain.inputs == "one") and sizes.T != sizes.S:
        return False
    return limits.takes_lengths(sizes.T, sizes.S, causal="causal" in domain.always)


def is_lawful(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a clause speaks of problems of these sizes, and the subject takes them as they are."""
    return Demand(domain).takes_sizes(sizes, limits) and adapt_sizes(sizes, limits) == sizes


Choice = TypeVar("Choice")

FAMILIES_A_CALL = 4
MOST_SMALL_LOGITS = 9_000
"""Scores (B·H·T·S) up to which a problem is small."""

SEED_BYTES = 3


def menu_of(domain: Domain, offered: frozenset[str], limits: Limits, effort: Effort,
            draws: tuple[str, ...] = (), *,
            shapes: tuple[Sizes, ...] | None = None) -> Menu | None:
    """What a clause may choose from on a subject that offers these keywords within these limits.

    shapes: those that it was dealt; None: those that it would be dealt alone. None where domain
    and limits leave none.
    """
    shapes = shapes_for(domain, limits, effort) if shapes is None else shapes
    domain = replace(domain, masks=domain.masks_within(limits))
    if shapes:
        return Menu(domain, limits, shapes, tuple(sorted(domain.sometimes & offered)), draws)
    return None


@dataclass(frozen=True)
class Menu:
    """What there is to choose from, and which bytes stand for which choice.  shapes: in the order
    of their dealing.
    """

    domain: Domain
    limits: Limits
    shapes: tuple[Sizes, ...]
    optional: tuple[str, ...]
    draws: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """In bytes, one a choice: shape, keywords, mask, bias, scale, inputs, the values of other
        keywords that may be in use, families (count, which), and the seed.
        """
        return 6 + len(self.optional) + len(self.valued_keywords) + FAMILIES_A_CALL + SEED_BYTES

    def recipe(self, choices: bytes, *drawn: int) -> Recipe:
        """The recipe that these bytes and drawn values stand for."""
        # byte by byte: a choice that is not needed still takes its byte, so that the others stay
        # what they are
        rest = iter(choices)
        sizes = _pick_choice(self.weighted_shapes, next(rest))
        features = self.domain.always | self._draw_features(rest, sizes)
        mask = _pick_choice(self.domain.masks, next(rest))
        bias = _pick_choice(self.domain.biases, next(rest))
        scale = _pick_choice(self.domain.scales, next(rest))
        inputs = _pick_choice(self.input_kinds(sizes), next(rest))
        values = {name: _pick_choice(self.values(name, sizes.S), next(rest))
                  for name in self.valued_keywords}
        sizes = self._step_sizes(sizes, values, features)
        return Recipe(
            sizes, self._draw_families(rest, sizes), mask if "mask" in features else "none",
            features,
            # what is left is the seed
            int.from_bytes(rest, "big"), dict(zip(self.draws, drawn, strict=True)),
            bias if "bias" in features else "normal", scale if "scale" in features else 1.0,
            model_width(sizes, self.limits) if self.domain.is_layer else 0, inputs,
            {name: value for name, value in values.items() if name in features})

    def compose(self, sizes: Sizes, used: frozenset[str], mask: str, seed: int, turn: int, *,
                chosen: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
        """The recipe of these sizes and keywords, as far as they go together. Values of keywords
        take turns, but the chosen ones.
        """
        features = self.domain.always | self._allowed_keywords(used)
        values = {name: (given := self.values(name, sizes.S))[turn % len(given)]
                  for name in self.valued_keywords}
        values.update(chosen)
        sizes = self._step_sizes(sizes, values, features)
        domain, count = self.domain, min(FAMILIES_A_CALL, sizes.B * sizes.Hkv)
        families = [domain.families[(turn + place) % len(domain.families)]
                    for place in range(count)]
        return Recipe(
            sizes, tuple(families), mask if "mask" in features else "none", features, seed,
            bias=domain.biases[turn % len(domain.biases)] if "bias" in features else "normal",
            scale=domain.scales[turn % len(domain.scales)] if "scale" in features else 1.0,
            values={name: value for name, value in values.items() if name in features})

    def chosen_shape(self, choices: bytes) -> Sizes:
        """The shape that these bytes choose, as it was dealt: nothing is fitted to it yet."""
        return _pick_choice(self.weighted_shapes, choices[0])

    @property
    def valued_keywords(self) -> tuple[str, ...]:
        """What takes a byte for its value only where it may be in use: other subjects' cases stay
        what they were.
        """
        return tuple(name for name in EVERY_VALUED if name in self.domain.always
                     or name in self.optional)

    def values(self, keyword: str, keys: int = 1) -> tuple[Any, ...]:
        """The values that the subject takes; all of them where it takes none, for its refusal to
        say why.

        Where there are many keys, each is followed by what it grows to, if the clause has no
        values of its own.
        """
        all_values = tuple(dict.fromkeys(chain.from_iterable(
            (value, self._grow_keyword_value(keyword, value, keys))
            for value in self.domain.values[keyword])))
        # a step takes as many new keys as queries, which only this pattern says
        if keyword == CACHED[0] and self.limits.is_step and "new_as_queries" in all_values:
            return ("new_as_queries",)
        return (tuple(each for each in all_values
                      if not self.limits.misfit(keyword, each, causal=True)) or all_values)

    def _step_sizes(self, sizes: Sizes, values: Mapping[str, Any],
                    features: frozenset[str]) -> Sizes:
        """As many queries as new keys, where the subject takes no others behind a past."""
        if not self.limits.is_behind_past(features):
            return sizes
        return replace(sizes, T=max(1, sizes.S - count_past(values[CACHED[0]], sizes)))

    def _grow_keyword_value(self, keyword: str, value: Any, keys: int) -> Any:  # noqa: ANN401  (by the keyword)
        values = EVERY_VALUED[keyword]
        is_usual = self.domain.values[keyword] == values.usual
        return values.grown(value, keys) if values.grown and is_usual else value

    @cached_property
    def weighted_shapes(self) -> tuple[Sizes, ...]:
        """The shapes, smallest first, small ones three times: a large problem costs as much as ten
        of them.
        """
        # byte 0 is then the smallest shape, which shrinking moves to
        ascending = sorted(self.shapes,
                           key=lambda sizes: (count_work(sizes), *sizes.by_axis.values()))
        weighted = list[Sizes]()
        for sizes in ascending:
            weighted += [sizes] * (3 if count_logits(sizes) <= MOST_SMALL_LOGITS else 1)
        return tuple(weighted)

    def _draw_features(self, choices: Iterator[int], sizes: Sizes) -> frozenset[str]:
        """Each keyword in half of the cases; causal in 7 of 8 where T ≠ S, since only there its
        alignment shows.
        """
        used = set()
        for keyword in self.optional:
            # of 256: seven eighths, or half
            least = 32 if keyword == "causal" and sizes.T != sizes.S else 128
            if next(choices) >= least:
                used.add(keyword)
        return self._allowed_keywords(frozenset(used))

    def _allowed_keywords(self, used: frozenset[str]) -> frozenset[str]:
        """What needs another keyword brings it along, or stays away itself where that is not on
        offer; and what is given beside another keyword only.

        What is always causal has the flag wherever the clause allows it.
        """
        used -= {name for name in used if name in BESIDE and BESIDE[name] not in used}
        if self.limits.causal_only and "causal" in self.optional:
            return used | {"causal"}
        together = used | self.domain.always
        brought = together.union(*map(self.limits.brings, together))
        if brought <= together | {*self.optional}:
            return brought - self.domain.always
        # what it needs is not on offer: it stays away itself
        return frozenset(name for name in used if self.limits.brings(name) <= together)

    def _draw_families(self, choices: Iterator[int], sizes: Sizes) -> tuple[str, ...]:
        """One to four, no more than there are key/value heads to fill."""
        count = min(_pick_choice(range(1, FAMILIES_A_CALL + 1), next(choices)),
                    sizes.B * sizes.Hkv)
        named = [_pick_choice(self.domain.families, next(choices)) for _ in range(FAMILIES_A_CALL)]
        return tuple(named[:count])

    def input_kinds(self, sizes: Sizes) -> tuple[str, ...]:
        """The kinds of input that a layer may be fed at these sizes; attention knows one."""
        if not self.domain.is_layer:
            return ("separate",)
        if self.limits.self_attention_only:
            return ("one",)
        if self.domain.inputs != "any":
            return (self.domain.inputs,)
        kinds = ("memory",) if self.limits.one_memory else ("separate", "memory")
        return (*kinds, "one") if sizes.T == sizes.S else kinds


def _pick_choice(choices: Sequence[Choice], byte: int) -> Choice:
    """The choice that a byte stands for; a smaller byte never stands for a later one."""
    return choices[byte * len(choices) >> 8]


def byte_for(index: int, count: int) -> int:
    """The smallest byte that picks this one of so many choices."""
    return -(-index * 256 // count)


ROW_CANDIDATES = 24
"""Rows that are made at random for each that is kept: the one that meets most combinations that
are new. With 60 the array of twenty features has 34 rows for 36.
"""

FEW_LENGTHS, MANY_LENGTHS = (5, 6), (67, 70)
"""Queries and keys: few, or more than the blocks of 16, 32 and 64 that kernels work in. None is a
power of two.
"""

WIDTHS = 8, 6
"""D and Dv, where they differ."""

Row = Mapping[str, bool]
"""Of each factor, whether it is used."""


@lru_cache(maxsize=64)
def deal_rows(factors: tuple[str, ...], strength: int, seed: int) -> tuple[Row, ...]:
    """Rows of factors, used or left out, so that any `strength` of them meet in every combination
    in some row.
    """
    strength = min(strength, len(factors))
    # a greedy cover: each row is the candidate that meets most combinations which no row has met
    groups = np.array(list(combinations(range(len(factors)), strength)), int)
    weights = 2 ** np.arange(strength)
    is_new = np.ones((len(groups), 2**strength), bool)
    rows: list[Row] = []
    while is_new.any():
        candidates = (random_words(seed, f"feature row {len(rows)}",
                                   (ROW_CANDIDATES, len(factors))) & 1)
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
    """The traits that problems of a subject may have that takes these keywords within these
    limits.
    """
    traits = {
        SEVERAL_ENTRIES: True, SEVERAL_GROUPS: not limits.single_head,
        GROUPS: limits.grouped is True,
        SINGLE_QUERY: True, OTHER_LENGTH: limits.lengths != "equal", MANY_QUERIES: True,
        MANY_KEYS: True, OTHER_WIDTH: not limits.ties_value_width, EMPTY_ROWS: "mask" in keywords,
        LONG_PAST: CACHED[0] in keywords,
        GROUPS_OF_SEVERAL: limits.grouped is True and not limits.single_head}
    return tuple(name for name, is_possible in traits.items() if is_possible)


@dataclass(frozen=True)
class FeatureArray:
    """The features of a subject, and the problems in which they meet.  optional: the keywords that
    it takes.
    """

    domain: Domain
    limits: Limits
    optional: tuple[str, ...]
    seed: int

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """What a row decides: of keywords that belong together one alone, and the traits that the
        limits leave.
        """
        # two keywords that go together are one decision
        keywords = [name for name in self.optional if not (name in BESIDE and BESIDE[name] < name)]
        traits = (name for name in traits_within(self.limits, self.optional)
                  if name != GROUPS_OF_SEVERAL)
        return (*keywords, *traits)

    @cached_property
    def triples(self) -> int:
        """The set of the triples that the problems may meet."""
        return triples_taken(frozenset(self.optional),
                             frozenset(traits_within(self.limits, self.optional)))

    def recipes(self, strength: int) -> tuple[Recipe, ...]:
        """The problems, each once, in the order of their rows."""
        rows = map(without_idle_flag, deal_rows(self.factors, strength, self.seed % 2**24))
        return tuple({recipe.text: recipe for recipe in map(self.recipe, rows, count())}.values())

    def recipe(self, row: Row, turn: int) -> Recipe:
        """The problem of a row. Masks, values and families take turns, but for what the row asks
        of them.
        """
        sizes = adapt_sizes(fit_to_limits(self._sizes_of_row(row), self.limits), self.limits)
        menu = Menu(self.domain, self.limits, (sizes,), self.optional)
        # rows without keys are a trait of their own
        masks = [name for name in self.domain.masks if name != "with_empty_rows"]
        mask = "with_empty_rows" if row.get(EMPTY_ROWS) else masks[turn % len(masks)]
        needed = {"mask": row.get(EMPTY_ROWS, False), CACHED[0]: row.get(LONG_PAST, False)}
        # a trait may need a keyword that the row leaves out
        given = {name for name in self.optional if row.get(name) or needed.get(name)}
        used = frozenset(name for name in self.optional if name in given
                         or BESIDE.get(name) in given)
        chosen = dict[str, Any]()
        if row.get(LONG_PAST):
            long = [name for name in menu.values(CACHED[0]) if count_past(name, sizes) > PAST]
            chosen = {CACHED[0]: long[turn % len(long)]} if long else {}
        return menu.compose(sizes, used, mask, (self.seed + turn) % 2**24, turn, chosen=chosen)

    def _sizes_of_row(self, row: Row) -> Sizes:
        """The sizes that have the traits of the row. B is never the number of key/value heads, nor
        H that of a group: what is broadcast along the wrong axis then shows as a wrong shape or a
        wrong number.
        """
        has_many_keys = row[MANY_KEYS] or row.get(LONG_PAST, False)
        T = MANY_LENGTHS[0] if row[MANY_QUERIES] else FEW_LENGTHS[0]
        S = MANY_LENGTHS[1] if has_many_keys else FEW_LENGTHS[1]
        if not row.get(OTHER_LENGTH):
            T = S = max(T, S)
        T = 1 if row[SINGLE_QUERY] else T
        # two groups of two heads at the most: of more, none shows anything else
        kv_heads = 2 if row.get(SEVERAL_GROUPS) else 1
        group = 2 if row.get(GROUPS) else 1
        B = 1
        if row[SEVERAL_ENTRIES]:
            B = 2 if row[MANY_QUERIES] else 3
        D, narrower = WIDTHS
        return Sizes(B, kv_heads * group, kv_heads, T, S, D,
                     narrower if row.get(OTHER_WIDTH) else D)


def without_idle_flag(row: Row) -> Row:
    """The row without the causal flag where that would leave one key to a single query: nothing
    else would show.
    """
    is_idle = row[SINGLE_QUERY] and not (row.get(CACHED[0]) or row.get(LONG_PAST))
    return {**row, "causal": False} if is_idle else row


def features_of(recipe: Recipe) -> frozenset[str]:
    """The features that a problem has, after all that limits have made of it."""
    past = count_past(recipe.value(CACHED[0]), recipe.sizes) if CACHED[0] in recipe.features else 0
    return features_at(recipe.sizes.by_axis, recipe.features, past,
                       has_empty_rows=recipe.mask == "with_empty_rows")
