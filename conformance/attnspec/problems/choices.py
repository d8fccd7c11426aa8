"""Turns bytes into recipes, and deals small problems in which features meet in threes.

All choices are bytes, so that one draw makes a recipe: an example costs Hypothesis 0.5 ms so,
against 1.1 ms for a dozen integers (a single integer costs 0.5 ms as well), and no two choices
come out alike as its mutations of integers make them. Byte 0 stands for the smallest shape, no
optional keyword, one family, the first of each list, and seed 0. The seed comes last: the next
larger number is the same problem with other entries.

In the small problems every three features of a subject meet, used and left out: a covering array.
A feature is a keyword, or a trait of the sizes on which mistakes depend (several batch entries,
groups of heads, one query, more keys than a block). Most mistakes need two or three features at
once (Kuhn, Wallace, Gallo 2004, "Software fault interactions"), and a problem with a feature costs
no more than one without: sizes cost, and these are small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
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
    """Whether clause and limits leave any problem."""
    if domain.kind in SIZES_OF_KIND:
        return bool(shapes_for(domain, limits, Effort.THOROUGH))
    demand = Demand(domain, projects=domain.is_layer)
    return any(demand.fit_sizes(sizes, limits) for sizes in SIMPLEST_SIZES)


@lru_cache(maxsize=64)
def shapes_for(domain: Domain, limits: Limits, effort: Effort, seed: int = 0) -> tuple[Sizes, ...]:
    """The sizes of a kind that brings its own, else those that a plan deals to this domain alone.

    None if clause and limits exclude each other. Under `grouped: maybe` there are grouped heads
    only where the subject declares that it takes them.
    """
    if domain.kind not in SIZES_OF_KIND:
        demand = Demand(domain, projects=domain.is_layer)
        return SizePlan((demand,), limits, effort, seed).rows(demand)
    of_kind = [sizes for sizes in _kind_sizes(domain.kind, limits, effort)
               if _may_be_put(sizes, domain, limits) and _keeps_counts(sizes, limits)]
    # a lower effort tries the first ones alone
    count = EFFORTS[effort].shapes.get(domain.kind, len(of_kind))
    # limits may make two sizes one
    shapes = tuple(dict.fromkeys(adapt_sizes(sizes, limits) for sizes in of_kind[:count]))
    if not limits.all_refusals:
        return shapes
    always = domain.always_within(limits)
    return tuple(sizes for sizes in shapes if not limits.misfit_of(sizes.by_axis, always))


def _keeps_counts(sizes: Sizes, limits: Limits) -> bool:
    """Whether fitting changes widths alone: laws of chance count head slices and lengths."""
    nearest = nearest_sizes(sizes, limits)
    return replace(nearest, D=sizes.D, Dv=sizes.Dv) == sizes


def _kind_sizes(kind: Kind, limits: Limits, effort: Effort) -> tuple[Sizes, ...]:
    """The kind's own sizes. For a subject of one head, its heads are further batch entries."""
    sizes = SIZES_OF_KIND[kind]
    if effort is Effort.GLANCE:
        sizes = _GLANCED_SIZES_OF_KIND.get(kind, sizes)
    # laws of chance count head slices, whether they are heads or batch entries
    if (kind in {"score", "dropout"} or kind in GENERIC_KINDS) and limits.single_head:
        return tuple(replace(each, B=each.B * each.H, H=1, Hkv=1) for each in sizes)
    return sizes


def _may_be_put(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a size that a kind brings along suits the subject."""
    if sizes.Hkv < sizes.H and limits.grouped is not True:
        return False
    # one input that serves as query and key alike has T = S
    if (limits.self_attention_only or domain.inputs == "one") and sizes.T != sizes.S:
        return False
    return limits.takes_lengths(sizes.T, sizes.S, causal="causal" in domain.always)


def is_lawful(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a clause is about problems of these sizes, and the subject takes exactly these."""
    return Demand(domain).takes_sizes(sizes, limits) and adapt_sizes(sizes, limits) == sizes


Choice = TypeVar("Choice")

FAMILIES_A_CALL = 4
MOST_SMALL_LOGITS = 9_000
"""Scores (B·H·T·S) up to which a problem is small."""

SEED_BYTES = 3


def menu_of(domain: Domain, keywords: frozenset[str], limits: Limits, effort: Effort,
            draws: tuple[str, ...] = (), *,
            shapes: tuple[Sizes, ...] | None = None) -> Menu | None:
    """What a clause may choose from on a subject that takes these keywords within these limits.

    shapes: those that it was dealt; None: those that it would be dealt alone. None where domain
    and limits leave no shape.
    """
    if shapes is None:
        shapes = shapes_for(domain, limits, effort)
    if not shapes:
        return None
    domain = replace(domain, masks=domain.masks_within(limits))
    return Menu(domain, limits, shapes, tuple(sorted(domain.sometimes & keywords)), draws)


@dataclass(frozen=True)
class Menu:
    """What there is to choose from, and which bytes stand for which choice.

    shapes: in the order of their dealing.
    """

    domain: Domain
    limits: Limits
    shapes: tuple[Sizes, ...]
    optional: tuple[str, ...]
    draws: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """The bytes of a recipe, one for each choice.

        They are for the shape, optional keywords, mask, bias, scale, inputs, values of other
        keywords, families (how many, and which), and the seed.
        """
        return 6 + len(self.optional) + len(self.valued_keywords) + FAMILIES_A_CALL + SEED_BYTES

    def recipe(self, choices: bytes, *drawn_values: int) -> Recipe:
        """The recipe that these bytes and drawn values stand for."""
        # a choice that is not needed still takes its byte, so that the others stay as they are
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
            int.from_bytes(rest, "big"), dict(zip(self.draws, drawn_values, strict=True)),
            bias if "bias" in features else "normal", scale if "scale" in features else 1.0,
            model_width(sizes, self.limits) if self.domain.is_layer else 0, inputs,
            {name: value for name, value in values.items() if name in features})

    def compose(self, sizes: Sizes, keywords: frozenset[str], mask: str, seed: int, turn: int, *,
                fixed_values: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
        """The recipe of these sizes and keywords, as far as they go together.

        Values of keywords take turns, unless they are fixed.
        """
        domain = self.domain
        features = domain.always | self._allowed_keywords(keywords)
        values = {name: _take_turn(self.values(name, sizes.S), turn)
                  for name in self.valued_keywords}
        values.update(fixed_values)
        sizes = self._step_sizes(sizes, values, features)
        families = [_take_turn(domain.families, turn + place)
                    for place in range(min(FAMILIES_A_CALL, sizes.B * sizes.Hkv))]
        return Recipe(
            sizes, tuple(families), mask if "mask" in features else "none", features, seed,
            bias=_take_turn(domain.biases, turn) if "bias" in features else "normal",
            scale=_take_turn(domain.scales, turn) if "scale" in features else 1.0,
            values={name: value for name, value in values.items() if name in features})

    def chosen_shape(self, choices: bytes) -> Sizes:
        """The shape that these bytes choose, as it was dealt, before it is fitted."""
        return _pick_choice(self.weighted_shapes, choices[0])

    @property
    def valued_keywords(self) -> tuple[str, ...]:
        """The keywords that take a byte for their value: only those that may be in use."""
        return tuple(name for name in EVERY_VALUED if name in self.domain.always
                     or name in self.optional)

    def values(self, keyword: str, keys: int = 1) -> tuple[Any, ...]:
        """The values of a keyword that the subject takes.

        All where it takes none of them, so that its refusal says why. Where there are many keys,
        each usual value is followed by what it grows to.
        """
        own, definition = self.domain.values[keyword], EVERY_VALUED[keyword]
        # a dictionary, so that each value stands once, in order
        all_values: dict[Any, None] = {}
        for value in own:
            all_values[value] = None
            if definition.grown and own == definition.usual:
                all_values[definition.grown(value, keys)] = None
        # a step takes as many new keys as queries, which only this pattern says
        if keyword == CACHED[0] and self.limits.is_step and "new_as_queries" in all_values:
            return ("new_as_queries",)
        fitting = tuple(value for value in all_values
                        if not self.limits.misfit(keyword, value, causal=True))
        return fitting or tuple(all_values)

    def _step_sizes(self, sizes: Sizes, values: Mapping[str, Any],
                    features: frozenset[str]) -> Sizes:
        """The sizes with as many queries as new keys, if a subject with a past takes no others."""
        if not self.limits.is_behind_past(features):
            return sizes
        return replace(sizes, T=max(1, sizes.S - count_past(values[CACHED[0]], sizes)))

    @cached_property
    def weighted_shapes(self) -> tuple[Sizes, ...]:
        """The shapes, smallest first; small ones three times, as large ones cost tenfold."""
        # byte 0 is then the smallest shape, which shrinking moves to
        ascending = sorted(self.shapes,
                           key=lambda sizes: (count_work(sizes), *sizes.by_axis.values()))
        shapes = list[Sizes]()
        for sizes in ascending:
            shapes += [sizes] * (3 if count_logits(sizes) <= MOST_SMALL_LOGITS else 1)
        return tuple(shapes)

    def _draw_features(self, choices: Iterator[int], sizes: Sizes) -> frozenset[str]:
        """Each keyword in half of the cases; causal in 7 of 8 if T ≠ S, where it shows."""
        keywords = set()
        for keyword in self.optional:
            # of 256: seven eighths, or half
            least = 32 if keyword == "causal" and sizes.T != sizes.S else 128
            if next(choices) >= least:
                keywords.add(keyword)
        return self._allowed_keywords(frozenset(keywords))

    def _allowed_keywords(self, keywords: frozenset[str]) -> frozenset[str]:
        """The keywords, changed so that they go together.

        One that goes with another only is left out without it. One that needs others brings them
        along, or is left out where these are not on offer. A causal subject has the flag wherever
        the clause allows it.
        """
        keywords -= {name for name in keywords if name in BESIDE and BESIDE[name] not in keywords}
        if self.limits.causal_only and "causal" in self.optional:
            return keywords | {"causal"}
        in_use = keywords | self.domain.always
        completed = in_use.union(*map(self.limits.brings, in_use))
        if completed <= in_use | {*self.optional}:
            return completed - self.domain.always
        return frozenset(name for name in keywords if self.limits.brings(name) <= in_use)

    def _draw_families(self, choices: Iterator[int], sizes: Sizes) -> tuple[str, ...]:
        """Draws one to four families, no more than there are key/value heads."""
        count = _pick_choice(range(1, FAMILIES_A_CALL + 1), next(choices))
        families = [_pick_choice(self.domain.families, next(choices))
                    for _ in range(FAMILIES_A_CALL)]
        return tuple(families[:min(count, sizes.B * sizes.Hkv)])

    def input_kinds(self, sizes: Sizes) -> tuple[str, ...]:
        """The kinds of input that a layer may get at these sizes; attention has one kind."""
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


def _take_turn(choices: Sequence[Choice], turn: int) -> Choice:
    return choices[turn % len(choices)]


def byte_for(index: int, count: int) -> int:
    """The smallest byte that picks the choice with this index."""
    return -(-index * 256 // count)


ROW_CANDIDATES = 24
"""Random candidates for each row, of which the one with most new combinations is taken.

With 60, the array of twenty features has 34 rows instead of 36.
"""

FEW_LENGTHS, MANY_LENGTHS = (5, 6), (67, 70)
"""Queries and keys: few, or more than the blocks of 16, 32 and 64 of kernels.

None is a power of two.
"""

WIDTHS = 8, 6
"""D and Dv, where they differ."""

Row = Mapping[str, bool]
"""By factor, whether it is used."""


@lru_cache(maxsize=64)
def deal_rows(factors: tuple[str, ...], strength: int, seed: int) -> tuple[Row, ...]:
    """Rows of factors, used or left out: any `strength` of them meet in every combination."""
    strength = min(strength, len(factors))
    # a greedy cover: each row is the candidate that meets most combinations which no row has met
    groups = np.array(list(combinations(range(len(factors)), strength)), int)
    weights = 2 ** np.arange(strength)
    is_new = np.ones((len(groups), 2**strength), bool)
    rows: list[Row] = []
    while is_new.any():
        shape = ROW_CANDIDATES, len(factors)
        candidates = random_words(seed, f"feature row {len(rows)}", shape) & 1
        # each candidate meets one combination that is new for certain, so that the search ends
        group, combination = np.argwhere(is_new)[0]
        candidates[:, groups[group]] = combination >> np.arange(strength) & 1
        combinations_met = candidates[:, groups] @ weights
        gains = np.take_along_axis(is_new, combinations_met.T, axis=1).sum(axis=0)
        best = int(gains.argmax())
        is_new[np.arange(len(groups)), combinations_met[best]] = False
        rows.append(dict(zip(factors, map(bool, candidates[best]), strict=True)))
    return tuple(rows)


def traits_within(limits: Limits, keywords: Collection[str]) -> tuple[str, ...]:
    """The traits that a subject with these limits and keywords may show."""
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
    """The features of a subject, and the problems in which they meet.

    optional: the keywords that it takes.
    """

    domain: Domain
    limits: Limits
    optional: tuple[str, ...]
    seed: int

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """What a row decides: keywords, one of each pair that goes together, and traits."""
        # two keywords that go together are one decision
        keywords = [name for name in self.optional if not (name in BESIDE and BESIDE[name] < name)]
        traits = traits_within(self.limits, self.optional)
        return (*keywords, *(name for name in traits if name != GROUPS_OF_SEVERAL))

    @cached_property
    def triples(self) -> int:
        """The set of the triples that the problems may meet."""
        return triples_taken(frozenset(self.optional),
                             frozenset(traits_within(self.limits, self.optional)))

    def recipes(self, strength: int) -> tuple[Recipe, ...]:
        """The problems, each once, in the order of their rows."""
        by_text = dict[str, Recipe]()
        for turn, row in enumerate(deal_rows(self.factors, strength, self.seed % 2**24)):
            recipe = self.recipe(without_idle_flag(row), turn)
            by_text[recipe.text] = recipe
        return tuple(by_text.values())

    def recipe(self, row: Row, turn: int) -> Recipe:
        """The problem of a row. Masks, values and families take turns unless the row sets them."""
        sizes = adapt_sizes(fit_to_limits(self._sizes_of_row(row), self.limits), self.limits)
        menu = Menu(self.domain, self.limits, (sizes,), self.optional)
        # rows without keys are a trait of their own
        masks = [name for name in self.domain.masks if name != "with_empty_rows"]
        mask: str = _take_turn(masks, turn)
        keywords = {name for name in self.optional if row.get(name)}
        fixed_values = dict[str, Any]()
        # a trait may need a keyword that the row leaves out
        if row.get(EMPTY_ROWS):
            mask = "with_empty_rows"
            keywords |= {"mask"}
        if row.get(LONG_PAST):
            keywords |= {CACHED[0]}
            long = [name for name in menu.values(CACHED[0]) if count_past(name, sizes) > PAST]
            if long:
                fixed_values[CACHED[0]] = _take_turn(long, turn)
        keywords &= set(self.optional)
        keywords |= {name for name in self.optional if BESIDE.get(name) in keywords}
        return menu.compose(sizes, frozenset(keywords), mask, (self.seed + turn) % 2**24, turn,
                            fixed_values=fixed_values)

    def _sizes_of_row(self, row: Row) -> Sizes:
        """The sizes with the traits of the row.

        B is never the number of key/value heads, nor H that of a group: what is broadcast along
        the wrong axis shows as a wrong shape or a wrong number.
        """
        has_many_keys = row[MANY_KEYS] or row.get(LONG_PAST, False)
        T = MANY_LENGTHS[0] if row[MANY_QUERIES] else FEW_LENGTHS[0]
        S = MANY_LENGTHS[1] if has_many_keys else FEW_LENGTHS[1]
        if not row.get(OTHER_LENGTH):
            T = S = max(T, S)
        if row[SINGLE_QUERY]:
            T = 1
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
    """The row, without the causal flag if that would leave a single query with one key."""
    is_idle = row[SINGLE_QUERY] and not (row.get(CACHED[0]) or row.get(LONG_PAST))
    return {**row, "causal": False} if is_idle else row


def features_of(recipe: Recipe) -> frozenset[str]:
    """The features that a problem has, after all fitting to limits."""
    past = 0
    if CACHED[0] in recipe.features:
        past = count_past(recipe.value(CACHED[0]), recipe.sizes)
    return features_at(recipe.sizes.by_axis, recipe.features, past,
                       has_empty_rows=recipe.mask == "with_empty_rows")
