"""Decides which sizes a run tries: together, its clauses meet every pair of sizes that matters.

A covering array: all pairs of buckets of two axes, and the sizes at which attention is used, are
dealt out like cards, and a clause draws its sizes around those that it holds. What it is dealt
follows from the seed, the subject's limits and the spec, whatever else is tried.

Faults of kernels for one use, such as the decoding of grouped heads, need more than two axes
together. There are more triples of buckets than a run has cases, but few of these uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import product

import numpy as np

from attnspec.core.coverage import (
    AXES,
    BUCKETS,
    AxisBucket,
    BucketPair,
    bucket_bounds,
    bucket_of,
    every_pair,
    pair_bits,
)
from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort
from attnspec.problems.demand import (
    STANDARD_WIDTHS,
    Blocks,
    Demand,
    LengthDistribution,
    length_distributions,
    lengths_of,
    partners_of,
    shortest_lengths,
    taken_lengths,
)
from attnspec.problems.domain import Grouped, Lengths, domain
from attnspec.problems.families import random_words
from attnspec.problems.problem import Array, Sizes, count_work

Span = tuple[str, tuple[int, int]]
"""An axis, with the least and the greatest length that it may have."""

Aim = tuple[Span, ...]
"""Lengths of two axes or more that one case should have together."""

# keys: the first bucket in which a kernel has more than one block of the usual sizes
_LONG_KEYS = 65


@cache
def all_aims() -> tuple[Aim, ...]:
    """Every pair of two axes, and every use. Keywords are dealt apart from them."""
    return (*map(aim_at, pairs_of_axes()), *_aims_of_uses())


@cache
def pairs_of_axes() -> tuple[BucketPair, ...]:
    """Every pair of buckets of two axes."""
    return tuple(pair for pair in every_pair() if len(pair.places) == 2)


def aim_at(pair: BucketPair) -> Aim:
    """The aim at a pair: any lengths in its buckets."""
    return tuple((axis, bucket_bounds(axis, bucket)) for axis, bucket in pair.places)


def meets_aim(aim: Aim, lengths: Mapping[str, int]) -> bool:
    """Whether a case with these lengths (of all axes) meets an aim."""
    for axis, (least, most) in aim:  # noqa: SIM110  (asked 100,000 times a run; `all` takes three times as long)
        if not least <= lengths[axis] <= most:
            return False
    return True


def _aims_of_uses() -> Iterator[Aim]:
    """The aims at uses, all with many keys.

    Decoding (one query) with groups and with batches; every width of a model; and several groups,
    also at many queries.
    """
    keys, queries = _spans_above("S", _LONG_KEYS), _spans_above("T", _LONG_KEYS)
    groups, batches = _spans_above("G", 2), _spans_above("B", 2)
    one_query = ("T", (1, 1))
    for span, other in product(keys, groups + batches):
        yield one_query, span, other
    for span, group, heads in product(keys + queries, groups, _spans_above("H", 9)):
        if heads[1][0] >= 2 * group[1][1]:
            yield span, group, heads
    for span, width in product(keys, STANDARD_WIDTHS):
        yield span, ("D", (width, width))


def _spans_above(axis: str, least: int) -> tuple[Span, ...]:
    bounds = (bucket_bounds(axis, bucket) for bucket in range(len(BUCKETS[axis])))
    return tuple((axis, span) for span in bounds if span[0] >= least)


_MOST_PAIRS_OF_ROW = 3        # pairs that a row is aimed at, at most, or as many axes
_HEAD_AXES = frozenset({"H", "G"})


def work_at(lengths: Mapping[str, int]) -> int:
    """The work of a call with these lengths; an axis that is not named is 1 long."""
    B, H, G, T, S, D, Dv = (lengths.get(axis, 1) for axis in AXES)
    heads = max(H, G)
    return count_work(Sizes(B, heads, heads, T, S, D, Dv))


def _least_work(spans: Mapping[str, tuple[int, int]], limits: Limits) -> int:
    """The work of the cheapest problem within these spans."""
    return work_at(shortest_lengths(spans, limits))


@lru_cache(maxsize=16)
def least_works(limits: Limits) -> Array:
    """(aims,) int: the work of the cheapest problem that meets each aim."""
    return np.array([_least_work(dict(aim), limits) for aim in all_aims()], np.int64)


@lru_cache(maxsize=16)
def demands_that_meet(demands: tuple[Demand, ...], limits: Limits) -> Array:
    """(aims, demands) bool: which of the demands can have a problem that meets each aim."""
    keys = [demand.meeting_key(limits) for demand in demands]
    # one demand of each key answers for all: there are few
    demand_of_key = dict(zip(reversed(keys), reversed(demands), strict=True))
    columns = {key: number for number, key in enumerate(demand_of_key)}
    meeting = [[demand.can_meet(spans, limits) for demand in demand_of_key.values()]
               for spans in map(dict, all_aims())]
    return np.array(meeting, bool)[:, [columns[key] for key in keys]]


def choose_aims(hand: Sequence[Aim], cap: float, limits: Limits) -> Iterator[Aim]:
    """The aims of a hand that one row can meet together, and pay for; the first come first."""
    spans: dict[str, tuple[int, int]] = {}
    for aim in hand:
        joint = {**spans, **dict(aim)}
        # H and G only together, from one aim: two would pull H two ways
        pulls_heads = joint.keys() >= _HEAD_AXES and not dict(aim).keys() >= _HEAD_AXES
        if (len(joint) == len(spans) + len(aim) and not pulls_heads
                and _least_work(joint, limits) <= cap):
            spans = joint
            yield aim
        if len(spans) >= 2 * _MOST_PAIRS_OF_ROW:
            return


def spread_aims(hand: Sequence[Aim], count: int) -> list[Aim]:
    """The aims of a hand in another order: evenly chosen ones of a large hand come first."""
    # a large hand is not played out: what is played comes evenly from all of it
    step = max(1, len(hand) // (_MOST_PAIRS_OF_ROW * count))
    return [*hand[::step], *(aim for index, aim in enumerate(hand) if index % step)]


GLANCED_SIZES = 3
"""How many sizes a clause keeps at a glance: one case, and two to spare."""

HURRIED_SHARED_SIZES = 3
"""How many sizes clauses share where compilers have little time.

They are T = S, T < S and T > S, one of them with grouped heads.
"""

LEAST_WORK = 1e6
"""The work that every row may cost, however many share the budget: a few thousand logits."""

_FIRST_ROW_FACTOR, _EVERY_ROW_FACTOR = 8, 2
"""Where a subject takes nothing small, rows may cost so many times its smallest case.

The first one has two entries, two heads and two blocks; the others have two of one of these.
"""

SIMPLEST_SIZES = (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(2, 2, 2, 2, 3, 2, 2))
"""Sizes that every clause has as well: its search begins there, and findings are read there."""

FLOAT64_SLOWDOWN = 10
"""A float64 subject is put so many times less: long double has no BLAS."""

_PLAIN_SHARE = 4    # of the budget, against 1 of clauses that look at more than one answer
_CAP_DECAY = 0.7         # each row of a clause may cost so much of the one before
# of one case at a glance: among fewer a mistake is small, among more it averages out
_TELLING_KEYS = range(4, 257)
# of the openings of a clause; of one under which any problem may be put
_SEVERAL_SHARE = 0.25
_SEVERAL_SHARE_OF_ANY = 0.5
# of the clauses that may have grouped heads have them in the one case of a glance
_GROUPED_SHARE = 0.5
_SEVERAL_AIM: Aim = (("B", (2, 4)), ("H", (2, 8)), ("T", (3, 64)), ("S", (4, 64)))
# of the rows that may have more than one batch entry, head, query or key have so many:
_SECOND_SHARE = 0.75
_FEW_LENGTHS: Mapping[str, int] = {"B": 2, "H": 2, "T": 3, "S": 4}
_SAME_WIDTHS_SHARE = 0.6  # of the rows have values as wide as keys, …
_SQUARE_SHARE = 0.25      # … and as many queries as keys, first by the queries, then by the keys
_LEAST_WEIGHTS = 100  # that share a budget: fewer do not get more each
_WIDEST_CLAUSES = 3         # clauses of a pool that have the largest problems, …
# … but none of these, about what no size brings out
_POOLS_OF_NO_SIZE = frozenset({"range", "unequal"})
_SHARED_OUT_SHARE = 0.4   # and the rest of the budget for them
_CLAUSES_PER_ROW = 30       # clauses, about, by which a shared row is tried
_LEAST_SHARED_SIZES = 3   # sizes that a clause is put at least
_LENGTHS_IN_TURN: tuple[Lengths, ...] = ("self", "more_keys", "more_queries")
_BLOCKS_AIM: Aim = (("T", (65, 256)), ("S", (65, 256)))  # of the usual sizes, several along both

_SMALL_LENGTHS: Mapping[str, int] = {"B": 2, "H": 4, "G": 2, "T": 9, "S": 9, "D": 16, "Dv": 16}
"""The most that an axis is long before its turn to be long comes."""


@dataclass(frozen=True)
class SizePlan:
    """Sizes for the clauses of a subject at one dtype.

    demands: all that a run may put to it. Each is dealt its part of the pairs, whichever are tried
    in the end.
    compiles: whether a compiler runs for every new shape: then all clauses share few sizes.
    flip_sizes: how many sizes the clauses share that ask variants which compile.
    blocks: those that the subject declares.
    hurries: whether what compiles has little time, so that clauses share only a few sizes.
    """

    demands: tuple[Demand, ...]
    limits: Limits
    effort: Effort
    seed: int = 0
    dtype: DType = DType.FLOAT32
    compiles: bool = False
    flip_sizes: int = 0
    blocks: Blocks = ()
    hurries: bool = False
    _dealt_sizes: dict[Demand, tuple[Sizes, ...]] = field(default_factory=dict, init=False,
                                                          repr=False, compare=False)
    _least: dict[Demand, float] = field(default_factory=dict, init=False, repr=False,
                                        compare=False)

    def rows(self, demand: Demand) -> tuple[Sizes, ...]:
        """The sizes for a demand, each different; none where no problem suits it."""
        if demand not in self._dealt_sizes:
            self._dealt_sizes[demand] = self._work_out_rows(demand)
        return self._dealt_sizes[demand]

    def _work_out_rows(self, demand: Demand) -> tuple[Sizes, ...]:
        if self.compiles:
            count = EFFORTS[self.effort].shared
            if self.hurries:
                count = min(HURRIED_SHARED_SIZES, count)
            return self._shared_rows(demand, count)
        rows = dict.fromkeys(self._own_rows(demand))
        if demand.flips and self.flip_sizes:
            rows = dict.fromkeys(self._shared_rows(demand, self.flip_sizes)) | rows
        return tuple(rows)

    def _own_rows(self, demand: Demand) -> Iterator[Sizes]:
        """The rows of one demand: those aimed at pairs, then those at random.

        Small ones come first, so that a wrong function fails on them, and it is known in time how
        long a slow one takes. A glance has one case, and chooses it.
        """
        rows, openings = list(self._draw_sizes(demand)), EFFORTS[self.effort].aimed
        if self.effort is Effort.GLANCE:
            rows = sorted(rows, key=lambda sizes: not _is_telling(sizes))[:GLANCED_SIZES]
            rows[:1] = [self._add_groups(demand, sizes) for sizes in rows[:1]]
        else:
            cheapest_first = sorted(rows[:openings], key=demand.work)
            rows[:openings] = self._add_groups_to_openings(demand, cheapest_first)
        yield from rows
        for simplest in SIMPLEST_SIZES:
            if sizes := demand.fit_sizes(simplest, self.limits):
                yield sizes

    def _add_groups(self, demand: Demand, sizes: Sizes) -> Sizes:
        """The sizes with several groups of several heads, if that suits clause and subject.

        Each clause about groups has them, and every second that may. Where all heads share one key
        head, it does not show which is whose, nor what should not have been broadcast.
        """
        grouping, takes = demand.domain.grouped, self.limits.grouped
        has_groups = grouping == "always" and takes is not False
        if grouping == "maybe" and takes is True:
            has_groups = self._drawer(f"groups {demand.demand_text}").draw_share() < _GROUPED_SHARE
        if not has_groups or _has_several_groups(sizes):
            return sizes
        # no dearer than what it replaces, or than the first row may be
        most = max(self._work_cap(demand, 0), demand.work(sizes))
        # what takes the number of groups for that of heads in a group is right for two of two
        for heads in (6, 4):
            in_groups = demand.fit_within_cap(replace(sizes, H=heads, Hkv=2), self.limits, most)
            if in_groups and _has_several_groups(in_groups):
                return in_groups
        return sizes

    def _add_groups_to_openings(self, demand: Demand, rows: list[Sizes]) -> list[Sizes]:
        """The first rows of a clause; one of them has several groups if it is about groups.

        With one group, or one head in each, hardly a mix-up shows. The smallest case stays as it
        is, to be read.
        """
        is_shown = any(map(_has_several_groups, rows))
        if demand.domain.grouped != "always" or is_shown or len(rows) <= 1:
            return rows
        smallest, second, *others = rows
        return [smallest, self._add_groups(demand, second), *others]

    def _draw_sizes(self, demand: Demand) -> Iterator[Sizes]:
        """The rows in the order of what they may cost, the dearest first."""
        drawer, hand = self._drawer(demand.demand_text), list(self._aims[demand])
        several_rows = self._rows_of_several(demand)
        for row in range(EFFORTS[self.effort].rows):
            aims = list[Aim]()
            if row in several_rows:
                aims = [_SEVERAL_AIM]
            elif row < EFFORTS[self.effort].aimed:
                aims = list(choose_aims(hand, self._work_cap(demand, row) / demand.calls,
                                        self.limits))
            sizes = self._draw_row(demand, row, aims, drawer)
            if sizes is None:
                continue
            # later rows look at no hand
            if row < EFFORTS[self.effort].aimed and row not in several_rows:
                lengths = lengths_of(sizes)
                hand = [aim for aim in hand if not meets_aim(aim, lengths) and aim not in aims[:1]]
            yield sizes

    def _rows_of_several(self, demand: Demand) -> range:
        """The openings for sizes that tell most: several entries along all axes, but few."""
        share = _SEVERAL_SHARE_OF_ANY if demand.is_general else _SEVERAL_SHARE
        openings = EFFORTS[self.effort].aimed
        return range(math.ceil((1 - share) * openings), openings)

    def _draw_row(self, demand: Demand, row: int, aims: Sequence[Aim],
                  drawer: Drawer) -> Sizes | None:
        """Draws one row. The last opening is the smallest: many functions treat one key apart."""
        if row == EFFORTS[self.effort].aimed - 1:
            return demand.fit_sizes(SIMPLEST_SIZES[0], self.limits)
        cap = self._work_cap(demand, row)
        pins = self._pin_lengths(aims, cap / demand.calls, drawer)
        return (self._draw_candidate(demand, pins, cap, drawer)
                or self._draw_candidate(demand, {}, cap, drawer))

    def _work_cap(self, demand: Demand, row: int) -> float:
        """What a row may cost: each less than the one before, as the demand's share allows."""
        budget = _SHARED_OUT_SHARE * EFFORTS[self.effort].budget
        share = budget * _budget_weight(demand) / max(self._total_weight, _LEAST_WEIGHTS)
        # the largest case goes to the clauses with most keywords: it meets most there
        largest, smallest = EFFORTS[self.effort].largest, self._smallest_work(demand)
        first = largest if demand in self._widest else share * (1 - _CAP_DECAY)
        first = max(first, _FIRST_ROW_FACTOR * smallest)
        cap = max(LEAST_WORK * demand.calls, _EVERY_ROW_FACTOR * smallest,
                  min(largest, first * _CAP_DECAY**row))
        return cap / FLOAT64_SLOWDOWN if self.dtype is DType.FLOAT64 else cap

    def _smallest_work(self, demand: Demand) -> float:
        """The work of the smallest case; 0 where the subject takes any size."""
        if not self.limits.all_refusals:
            return 0.0
        if demand not in self._least:
            smallest = demand.fit_sizes(SIMPLEST_SIZES[0], self.limits)
            self._least[demand] = demand.work(smallest) if smallest else 0.0
        return self._least[demand]

    @cached_property
    def _total_weight(self) -> int:
        return sum(map(_budget_weight, self.demands))

    @cached_property
    def _widest(self) -> tuple[Demand, ...]:
        """The plain demands with most keywords, which have the largest problems."""
        plain = (each for each in self.demands if each.is_one_run
                 and each.pool not in _POOLS_OF_NO_SIZE)
        return tuple(sorted(plain, key=_budget_weight, reverse=True)[:_WIDEST_CLAUSES])

    @cached_property
    def _aims(self) -> Mapping[Demand, list[Aim]]:
        """Each demand's part of the aims.

        Each aim, the dearest first, goes to the demand with most rows left that can pay for it.
        """
        if not self.demands:
            return {}
        aims, works = all_aims(), least_works(self.limits)
        can_pay = self._caps >= works[:, None, None]
        can_meet = can_pay[..., 0] & demands_that_meet(self.demands, self.limits)
        # less than whoever holds all aims has
        spare = np.where(can_meet, can_pay.sum(axis=-1), -2 * len(aims))
        hands, hand_sizes = [list[Aim]() for _ in self.demands], np.zeros(len(self.demands), int)
        for index in filter(np.asarray(can_meet.any(axis=-1)).item, self._dearest_first(works)):
            holder = int((spare[index] - hand_sizes).argmax())
            hands[holder].append(aims[index])
            hand_sizes[holder] += 1
        return {demand: spread_aims(hand, EFFORTS[self.effort].aimed)
                for demand, hand in zip(self.demands, hands, strict=True)}

    @cached_property
    def _caps(self) -> Array:
        """(demands, rows): what a call of each row that is aimed may cost."""
        rows = range(EFFORTS[self.effort].aimed)
        return np.array([[self._work_cap(demand, row) / demand.calls for row in rows]
                         for demand in self.demands])

    def _dearest_first(self, works: Array) -> list[int]:
        """The indices of all aims by their work (aims,), in random order where works are equal."""
        order = np.argsort(random_words(self.seed, f"aims {self.dtype.value}", works.shape),
                           kind="stable")
        dearest: list[int] = order[np.argsort(-works[order], kind="stable")].tolist()
        return dearest

    @cached_property
    def _distributions(self) -> Mapping[str, LengthDistribution]:
        table = length_distributions(is_thorough=self.effort is Effort.THOROUGH,
                                     blocks=self.blocks)
        partners = partners_of(self.limits)
        return {name: taken_lengths(axis, self.limits.refused_along(name, partners.get(name, "")))
                for name, axis in table.items()}

    def _pin_lengths(self, aims: Sequence[Aim], cap: float, drawer: Drawer) -> dict[str, int]:
        """Random lengths within the spans of these aims; the least ones where they are dear."""
        spans = dict(span for aim in aims for span in aim)
        lengths = {axis: self._distributions[axis].length_at(drawer.draw_share(), *span)
                   for axis, span in spans.items()}
        if work_at(lengths) > cap:
            return {axis: self._distributions[axis].first_taken(least)
                    for axis, (least, _) in spans.items()}
        return lengths

    def _deal_shared_sizes(self, count: int) -> Iterator[Sizes]:
        """The sizes that all clauses share.

        T = S, T < S and T > S take turns, the second time with several blocks; every fourth has
        grouped heads, if they are taken.
        """
        # each shared row is put to some thirty clauses
        cap = max(LEAST_WORK,
                  EFFORTS[self.effort].budget / EFFORTS[self.effort].shared / _CLAUSES_PER_ROW)
        drawer = self._drawer("shared")
        projects = any(demand.projects for demand in self.demands)
        for row in range(count):
            grouping: Grouped = "always" if row % 4 == 1 and self.limits.grouped else "no"
            aims = (_BLOCKS_AIM,) if row // len(_LENGTHS_IN_TURN) == 1 else ()
            pins = self._pin_lengths(aims, cap, drawer)
            # where the subject does not take these lengths, any will do
            for lengths in (_LENGTHS_IN_TURN[row % len(_LENGTHS_IN_TURN)], "any"):
                demand = Demand(domain(lengths=lengths, grouped=grouping), projects=projects)
                if sizes := self._draw_candidate(demand, pins, cap, drawer):
                    yield sizes
                    break

    def _shared_rows(self, demand: Demand, count: int) -> tuple[Sizes, ...]:
        """The shared sizes that the demand takes; where these are few, others changed for it."""
        most = EFFORTS[self.effort].largest
        shared = list(self._deal_shared_sizes(count))
        # no other sizes, so that no clause makes a compiler run for itself
        rows = [sizes for sizes in shared if demand.takes_sizes(sizes, self.limits)
                and demand.work(sizes) <= most]
        if len(rows) < _LEAST_SHARED_SIZES:
            changes = (demand.fit_within_cap(sizes, self.limits, most) for sizes in shared)
            rows += filter(None, changes)
            rows = rows[:_LEAST_SHARED_SIZES]
        return tuple(dict.fromkeys(rows))

    def _drawer(self, label: str) -> Drawer:
        return Drawer.from_label(self.seed, f"sizes {self.dtype.value} {label}")

    def _draw_candidate(self, demand: Demand, pins: Mapping[str, int], cap: float,
                        drawer: Drawer) -> Sizes | None:
        """Draws sizes: axes in random order, each within the room that the budget leaves.

        pins: lengths that are set.
        """
        table, cap_of_call = self._distributions, cap / demand.calls
        is_square = self.limits.lengths == "equal"
        if is_square:
            pins = square_lengths(pins)
        # all short first: the budget is for the few axes that may be long
        lengths = {name: table[name].length_at(drawer.draw_share(), 1, most)
                   for name, most in _SMALL_LENGTHS.items()}
        lengths.update(pins)
        # who comes first gets most of the room
        for name in drawer.shuffle_items(name for name in _SMALL_LENGTHS if name not in pins):
            share = drawer.draw_share()
            if is_square and name in SIDES:
                side = table[name].length_at(share, 1, longest_side(lengths, cap_of_call))
                lengths.update(dict.fromkeys(SIDES, side))
            else:
                room = room_for_axis(lengths, name, cap_of_call)
                lengths[name] = table[name].length_at(share, 1, room)
        # a second slice may be taken for the first; of a single key all is known
        for name, few in _FEW_LENGTHS.items():
            more = {**lengths, name: few}
            is_free = lengths[name] == 1 and name not in pins
            if is_free and drawer.draw_share() < _SECOND_SHARE and work_at(more) <= cap_of_call:
                lengths = more
        for one, other, share in (("D", "Dv", _SAME_WIDTHS_SHARE), ("T", "S", _SQUARE_SHARE),
                                  ("S", "T", _SQUARE_SHARE)):
            same = {**lengths, other: lengths[one]}
            if other not in pins and drawer.draw_share() < share and work_at(same) <= cap_of_call:
                lengths = same
        return demand.fit_within_cap(sizes_of(lengths), self.limits, cap)


def _has_several_groups(sizes: Sizes) -> bool:
    """Whether there are several groups of several heads."""
    return sizes.H > sizes.Hkv > 1


def _is_telling(sizes: Sizes) -> bool:
    """Whether one case of these sizes shows most mistakes: there are several of everything."""
    return (sizes.S in _TELLING_KEYS and sizes.B * sizes.H >= 2 and sizes.T >= 3
            and min(sizes.D, sizes.Dv) >= 2)


def _budget_weight(demand: Demand) -> int:
    """A demand's share of the budget.

    Where one answer is compared, it grows with the keywords that a case may have.
    """
    if demand.is_one_run:
        return _PLAIN_SHARE + len(demand.domain.always | demand.domain.sometimes)
    return 1


def sizes_of(lengths: Mapping[str, int]) -> Sizes:
    """Sizes from lengths; H query heads, or as near to that as whole groups come."""
    B, H, G, T, S, D, Dv = (lengths[name] for name in AXES)
    kv_heads = max(1, H // G)
    return Sizes(B, kv_heads * G, kv_heads, T, S, D, Dv)


@lru_cache(maxsize=16)
def plan_for(demands: tuple[Demand, ...], limits: Limits, effort: Effort, seed: int, dtype: DType,
             *, compiles: bool, flip_sizes: int, blocks: Blocks = (),
             hurries: bool = False) -> SizePlan:
    """The plan for these arguments, which subjects with the same ones share."""
    return SizePlan(demands, limits, effort, seed, dtype, compiles, flip_sizes, blocks, hurries)


@dataclass(frozen=True, slots=True)
class Drawer:
    """Draws shares in [0, 1), one after the other, from a seed."""

    stream: Iterator[float]

    @classmethod
    def from_label(cls, seed: int, label: str) -> Drawer:
        """A stream of its own for each seed and label."""
        def shares() -> Iterator[float]:
            for block in range(2**31):
                yield from (random_words(seed, f"{label} {block}", (256,)) * 2.0**-32).tolist()
        return cls(shares())

    def draw_share(self) -> float:
        """Draws the next share."""
        return next(self.stream)

    def shuffle_items(self, items: Iterable[str]) -> list[str]:
        """The items in random order."""
        return [item for _, item in sorted((self.draw_share(), item) for item in items)]


# How long an axis may be beside the others, for a call to cost no more than it may


SIDES = ("T", "S")
"""The axes that are equally long where T = S."""


def room_for_axis(lengths: Mapping[str, int], name: str, cap: float) -> int:
    """The greatest length of an axis beside the others at which a call costs at most `cap`.

    G goes with H: of the two, the other one counts as 1.
    """
    other_of_heads = "H" if name == "G" else "G"
    plain = {**lengths, other_of_heads: 1}
    one, two = (work_at({**plain, name: length}) for length in (1, 2))
    return max(1, int(1 + (cap - one) / (two - one)))  # the work is linear in every axis


def longest_side(lengths: Mapping[str, int], cap: float) -> int:
    """The greatest number of queries, and as many keys, beside the other lengths."""
    one, two, three = (work_at({**lengths, **dict.fromkeys(SIDES, length)})
                       for length in (1, 2, 3))
    # three lengths fix a polynomial of the second degree
    square = (three - 2 * two + one) / 2  # the work is square * side² + linear * side
    linear = two - one - 3 * square
    return max(1, int((math.sqrt(linear**2 + 4 * square * cap) - linear) / (2 * square)))


def square_lengths(lengths: Mapping[str, int]) -> Mapping[str, int]:
    """The lengths with T = S, the longer of the two, where either is named."""
    sides = [lengths[name] for name in SIDES if name in lengths]
    return {**lengths, **dict.fromkeys(SIDES, max(sides))} if sides else lengths


_ANY_DEMAND = Demand(domain(grouped="maybe"))


@lru_cache(maxsize=64)
def taken_pairs(limits: Limits, keywords: frozenset[str]) -> int:
    """The set of pairs that a subject with these limits and keywords takes at effort default."""
    pairs = 0
    for pair, bit in pair_bits().items():
        has_keyword = not isinstance(pair.other, str) or pair.other in keywords
        if has_keyword and _is_taken(pair, limits):
            pairs |= bit
    return pairs


def _is_taken(pair: BucketPair, limits: Limits) -> bool:
    """Whether a subject takes a problem of the shortest or longest lengths of a pair."""
    partners, ends = partners_of(limits), list[tuple[int, int]]()
    for axis, bucket in pair.places:
        least, most = bucket_bounds(axis, bucket)
        first = limits.nearest(axis, least, partner=partners.get(axis, ""), least=least)
        ends.append((first, most))
    axes, largest = [axis for axis, _ in pair.places], EFFORTS[Effort.DEFAULT].largest
    for corner in product(*ends):
        lengths = {**dict.fromkeys(AXES, 1), **dict(zip(axes, corner, strict=True))}
        sizes = _ANY_DEMAND.fit_sizes(sizes_of(lengths), limits)
        if sizes and _ANY_DEMAND.work(sizes) <= largest and _lies_in(sizes, pair.places):
            return True
    return False


def _lies_in(sizes: Sizes, places: Iterable[AxisBucket]) -> bool:
    lengths = lengths_of(sizes)
    return all(bucket_of(axis, lengths[axis]) == bucket for axis, bucket in places)
