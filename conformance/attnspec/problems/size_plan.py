"""Which sizes a run tries: dealt to its clauses such that together they meet every pair of what
matters.

A covering array: all pairs of buckets of two axes, and what attention is used at, are dealt out
like cards, and a clause draws its sizes around those that it holds. What it is dealt follows from
the seed, the subject's limits and the spec, whatever else is tried.

Faults of kernels that are made for one use, such as the decoding of grouped heads, need more than
two axes together, and more triples of buckets exist than a run has cases. Those of these uses are
few.
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
"""An axis with the least and the greatest length that it may have."""

Aim = tuple[Span, ...]
"""Lengths of two axes or more that one case is to have together."""

# keys: the first bucket in which a kernel has more than one block of the usual sizes
_LONG_KEYS = 65


@cache
def all_aims() -> tuple[Aim, ...]:
    """Every pair of two axes, and every use; keywords are dealt for themselves."""
    return (*map(aim_at, pairs_of_axes()), *_aims_of_uses())


@cache
def pairs_of_axes() -> tuple[BucketPair, ...]:
    """Every pair of two axes."""
    return tuple(pair for pair in every_pair() if len(pair.places) == 2)


def aim_at(pair: BucketPair) -> Aim:
    """Any lengths in the buckets of a pair."""
    return tuple((axis, bucket_bounds(axis, bucket)) for axis, bucket in pair.places)


def meets_aim(aim: Aim, lengths: Mapping[str, int]) -> bool:
    """Whether a case with these lengths (of all axes) is what was aimed at."""
    for axis, (least, most) in aim:  # noqa: SIM110  (asked 100,000 times a run; `all` takes three times as long)
        if not least <= lengths[axis] <= most:
            return False
    return True


def _aims_of_uses() -> Iterator[Aim]:
    """At many keys: decoding (one query) with groups and with batches, and every width of a model;
    several groups there and at many queries.
    """
    keys = _spans_above("S", _LONG_KEYS)
    queries = _spans_above("T", _LONG_KEYS)
    one_query = ("T", (1, 1))
    yield from ((one_query, span, other)
                for span, other in product(keys, (*_spans_above("G", 2), *_spans_above("B", 2))))
    yield from ((span, group, heads)
                for span, group, heads in product(keys + queries, _spans_above("G", 2),
                                                  _spans_above("H", 9))
                if heads[1][0] >= 2 * group[1][1])
    yield from ((span, ("D", (width, width))) for span, width in product(keys, STANDARD_WIDTHS))


def _bucket_spans(axis: str) -> Iterator[Span]:
    return ((axis, bucket_bounds(axis, bucket)) for bucket in range(len(BUCKETS[axis])))


def _spans_above(axis: str, least: int) -> tuple[Span, ...]:
    return tuple(span for span in _bucket_spans(axis) if span[1][0] >= least)


_MOST_PAIRS_OF_ROW = 3        # pairs that a row is aimed at, at most, or as many axes
# a pair of both pins them together; two pairs would pull H two ways
_HEAD_AXES = frozenset({"H", "G"})


def work_at(lengths: Mapping[str, int]) -> int:
    """The work of a call with these lengths; an axis that is not named is 1 long."""
    of = lengths.get
    heads = max(of("H", 1), of("G", 1))
    return count_work(Sizes(of("B", 1), heads, heads, of("T", 1), of("S", 1), of("D", 1),
                            of("Dv", 1)))


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
    found = [demand.meeting_key(limits) for demand in demands]
    # a demand of each kind that may meet the same
    kinds = dict(zip(reversed(found), reversed(demands), strict=True))
    numbers = {kind: number for number, kind in enumerate(kinds)}
    meeting = [[kind.can_meet(spans, limits) for kind in kinds.values()]
               for spans in map(dict, all_aims())]
    return np.array(meeting, bool)[:, [numbers[each] for each in found]]


def choose_aims(hand: Sequence[Aim], cap: float, limits: Limits) -> Iterator[Aim]:
    """The first aim of a hand that a row may pay for, and further ones of other axes that fit
    beside it.
    """
    taken: dict[str, tuple[int, int]] = {}
    for aim in hand:
        wanted = {**taken, **dict(aim)}
        if (len(wanted) == len(taken) + len(aim) and not _pulls_heads(wanted, aim)
                and _least_work(wanted, limits) <= cap):
            taken = wanted
            yield aim
        if len(taken) >= 2 * _MOST_PAIRS_OF_ROW:
            return


def _pulls_heads(wanted: Mapping[str, tuple[int, int]], aim: Aim) -> bool:
    """Whether H and G are wanted together, though the aim has not both."""
    return wanted.keys() >= _HEAD_AXES and not dict(aim).keys() >= _HEAD_AXES


def spread_aims(hand: Sequence[Aim], count: int) -> list[Aim]:
    """The aims of a hand, the dearest first; of a large one so many evenly before the others."""
    # a large hand is not played out: what is played comes evenly from all of it
    step = max(1, len(hand) // (_MOST_PAIRS_OF_ROW * count))
    return [*hand[::step], *(aim for at, aim in enumerate(hand) if at % step)]


GLANCED_SIZES = 3
"""How many of them a glance keeps: one case, and two to spare."""

HURRIED_SHARED_SIZES = 3
"""How many of these where compilers have little time: T = S, T < S and T > S, one of them with
grouped heads.
"""

LEAST_WORK = 1e6
"""The work that every row may cost, however many share the budget: some thousand logits."""

_FIRST_ROW_FACTOR, _EVERY_ROW_FACTOR = 8, 2
"""Where a subject takes nothing small, its first row and all others may cost so many times its
smallest case: two entries, two heads and two blocks; and two of one of these.
"""

SIMPLEST_SIZES = (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(2, 2, 2, 2, 3, 2, 2))
"""What every clause has, too, for its search to begin with and its findings to be read on."""

FLOAT64_SLOWDOWN = 10
"""By how much less a float64 subject is put: long double has no BLAS."""

_PLAIN_SHARE = 4    # of the budget, against 1 of clauses that look at more than one answer
_CAP_DECAY = 0.7         # each row of a clause may cost so much of the one before
# of one case at a glance: among fewer a mistake is small, among more it averages out
_TELLING_KEYS = range(4, 257)
# of the openings of a clause; of one under which any problem may be put
_KEPT_SHARE = 0.25
_KEPT_SHARE_OF_ANY = 0.5
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
"""What an axis is at most before its turn to be long comes."""


@dataclass(frozen=True)
class SizePlan:
    """Sizes for the clauses of a subject at one dtype.

    demands: all that a run may put to it: each is dealt its part of the pairs, whichever are tried
    in the end.  compiles: whether a compiler runs for every new shape: then all clauses share few.
    flip_sizes: how many sizes, their first ones, the clauses share that ask variants which
    compile.  blocks: those of the subject, where it says them.  hurries: whether what compiles has
    little time, so that clauses share a few of these sizes only.
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
        """The sizes that a demand is put, each different; none where clause and subject rule each
        other out.
        """
        if demand not in self._dealt_sizes:
            self._dealt_sizes[demand] = self._work_out_rows(demand)
        return self._dealt_sizes[demand]

    def _work_out_rows(self, demand: Demand) -> tuple[Sizes, ...]:
        if self.hurries:
            every = min(HURRIED_SHARED_SIZES, EFFORTS[self.effort].shared)
        else:
            every = EFFORTS[self.effort].shared
        if self.compiles:
            return self._shared_rows(demand, tuple(self._deal_shared_sizes(every)))
        shared: tuple[Sizes, ...] = ()
        if demand.flips and self.flip_sizes:
            shared = self._shared_rows(demand, tuple(self._deal_shared_sizes(self.flip_sizes)))
        return tuple(dict.fromkeys((*shared, *self._own_rows(demand))))

    def _own_rows(self, demand: Demand) -> Iterator[Sizes]:
        """One demand's rows, those aimed at pairs before those at random. Small ones come first,
        so that a wrong function fails on them, and how long a slow one takes is known in time. A
        glance has one case, so it chooses.
        """
        rows, aimed = list(self._draw_sizes(demand)), EFFORTS[self.effort].aimed
        if self.effort is Effort.GLANCE:
            rows = sorted(rows, key=lambda sizes: not _is_telling(sizes))[:GLANCED_SIZES]
            rows[:1] = [self._add_groups(demand, sizes) for sizes in rows[:1]]
        else:
            rows[:aimed] = self._add_groups_to_openings(demand,
                                                        sorted(rows[:aimed], key=demand.work))
        simplest = (demand.fit_sizes(sizes, self.limits) for sizes in SIMPLEST_SIZES)
        yield from (*rows, *filter(None, simplest))

    def _add_groups(self, demand: Demand, sizes: Sizes) -> Sizes:
        """A case with several groups of several heads, of each clause about groups and of every
        second that may have them. Where all heads share one of keys, which is whose does not show,
        nor what was broadcast and should have been repeated.
        """
        grouping, takes = demand.domain.grouped, self.limits.grouped
        is_about_groups = grouping == "always" and takes is not False
        may_have = grouping == "maybe" and takes is True
        is_chosen = (may_have and self._drawer(f"groups {demand.demand_text}").draw_share()
                     < _GROUPED_SHARE)
        if not (is_about_groups or is_chosen) or _has_several_groups(sizes):
            return sizes
        # no dearer than what it replaces, or than the first row may be
        most = max(self._work_cap(demand, 0), demand.work(sizes))
        # what takes the number of groups for that of heads in a group is right for two of two
        for heads in (6, 4):
            grouped = demand.fit_within_cap(replace(sizes, H=heads, Hkv=2), self.limits, most)
            if grouped and _has_several_groups(grouped):
                return grouped
        return sizes

    def _add_groups_to_openings(self, demand: Demand, rows: list[Sizes]) -> list[Sizes]:
        """The openings of a clause, one of them with several groups of several heads if it is
        about groups: with one group, or one head in each, hardly a mix-up of them shows. The
        smallest case stays, to be read on.
        """
        is_shown = any(map(_has_several_groups, rows))
        if demand.domain.grouped != "always" or is_shown or len(rows) <= 1:
            return rows
        smallest, second, *others = rows
        return [smallest, self._add_groups(demand, second), *others]

    def _draw_sizes(self, demand: Demand) -> Iterator[Sizes]:
        """The same in the order of what they may cost, the dearest first."""
        drawer, hand = self._drawer(demand.demand_text), list(self._aims[demand])
        kept = self._openings_for_demand(demand)
        for row in range(EFFORTS[self.effort].rows):
            is_aimed = row < EFFORTS[self.effort].aimed and row not in kept
            if is_aimed:
                aims = list(choose_aims(hand, self._work_cap(demand, row) / demand.calls,
                                        self.limits))
            else:
                aims = []
            if sizes := self._draw_row(demand, row, (_SEVERAL_AIM,) if row in kept else aims,
                                       drawer):
                if is_aimed:  # later rows look at no hand
                    lengths = lengths_of(sizes)
                    hand = [aim for aim in hand if not meets_aim(aim, lengths)
                            and aim not in aims[:1]]
                yield sizes

    def _openings_for_demand(self, demand: Demand) -> range:
        """The openings that are kept for sizes that tell most: several entries of everything, and
        no great length.
        """
        kept = _KEPT_SHARE_OF_ANY if demand.is_general else _KEPT_SHARE
        aimed = EFFORTS[self.effort].aimed
        return range(math.ceil((1 - kept) * aimed), aimed)

    def _draw_row(self, demand: Demand, row: int, aims: Sequence[Aim],
                  drawer: Drawer) -> Sizes | None:
        """One of them. The last opening is the least problem that is taken: many functions have a
        path for one key.
        """
        if row == EFFORTS[self.effort].aimed - 1:
            return demand.fit_sizes(SIMPLEST_SIZES[0], self.limits)
        cap = self._work_cap(demand, row)
        pinned = self._pin_lengths(aims, cap / demand.calls, drawer)
        return (self._draw_candidate(demand, pinned, cap, drawer)
                or self._draw_candidate(demand, {}, cap, drawer))

    def _work_cap(self, demand: Demand, row: int) -> float:
        """What a row may cost: each less than the one before, all together no more than the
        demand's share.
        """
        budget = _SHARED_OUT_SHARE * EFFORTS[self.effort].budget
        share = budget * _budget_weight(demand) / max(self._total_weight, _LEAST_WEIGHTS)
        # the largest case goes to the clauses with most keywords: it meets most there
        if demand in self._widest:
            first = EFFORTS[self.effort].largest
        else:
            first = share * (1 - _CAP_DECAY)
        smallest = self._smallest_work(demand)
        first = max(first, _FIRST_ROW_FACTOR * smallest)
        cap = max(LEAST_WORK * demand.calls, _EVERY_ROW_FACTOR * smallest,
                  min(EFFORTS[self.effort].largest, first * _CAP_DECAY**row))
        return cap / (FLOAT64_SLOWDOWN if self.dtype is DType.FLOAT64 else 1)

    def _smallest_work(self, demand: Demand) -> float:
        """The work of the smallest case, where the subject takes nothing small; 0 where it may
        take any size.
        """
        if demand not in self._least:
            if self.limits.all_refusals:
                smallest = demand.fit_sizes(SIMPLEST_SIZES[0], self.limits)
            else:
                smallest = None
            self._least[demand] = demand.work(smallest) if smallest else 0.0
        return self._least[demand]

    @cached_property
    def _total_weight(self) -> int:
        return sum(map(_budget_weight, self.demands))

    @cached_property
    def _widest(self) -> tuple[Demand, ...]:
        """The plain demands with most keywords: they have the largest problems."""
        plain = (each for each in self.demands if each.is_one_run
                 and each.pool not in _POOLS_OF_NO_SIZE)
        return tuple(sorted(plain, key=_budget_weight, reverse=True)[:_WIDEST_CLAUSES])

    @cached_property
    def _aims(self) -> Mapping[Demand, list[Aim]]:
        """Each demand's part of the aims, the dearest first: dealt to whom most rows are left that
        may pay for it.
        """
        if not self.demands:
            return {}
        aims, works = all_aims(), least_works(self.limits)
        can_pay = self._caps >= works[:, None, None]
        can_meet = can_pay[..., 0] & demands_that_meet(self.demands, self.limits)
        # less than whoever holds all aims has
        spare = np.where(can_meet, can_pay.sum(axis=-1), -2 * len(aims))
        hands, held = [list[Aim]() for _ in self.demands], np.zeros(len(self.demands), int)
        for index in filter(np.asarray(can_meet.any(axis=-1)).item, self._dearest_first(works)):
            chosen = int((spare[index] - held).argmax())
            hands[chosen].append(aims[index])
            held[chosen] += 1
        aimed = EFFORTS[self.effort].aimed
        return {demand: spread_aims(hand, aimed)
                for demand, hand in zip(self.demands, hands, strict=True)}

    @cached_property
    def _caps(self) -> Array:
        """(demands, rows): what a call of each row that is aimed may cost."""
        return np.array([[self._work_cap(demand, row) / demand.calls
                          for row in range(EFFORTS[self.effort].aimed)]
                         for demand in self.demands])

    def _dearest_first(self, works: Array) -> list[int]:
        """The indices of all aims, given the work (aims,) of each; those that cost the same in
        random order.
        """
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
        """Any lengths within the spans of these aims; the least ones where any would cost too
        much.
        """
        spans = dict(span for aim in aims for span in aim)
        drawn = {axis: self._distributions[axis].length_at(drawer.draw_share(), *span)
                 for axis, span in spans.items()}
        is_dear = work_at(drawn) > cap
        return {axis: self._distributions[axis].first_taken(least) for axis,
                (least, _) in spans.items()} if is_dear else drawn

    def _deal_shared_sizes(self, count: int) -> Iterator[Sizes]:
        """What all clauses share: T = S, T < S and T > S in turn, the second time with blocks
        along both, and grouped heads in every fourth, if taken.
        """
        # each shared row is put to some thirty clauses
        cap = max(LEAST_WORK,
                  EFFORTS[self.effort].budget / EFFORTS[self.effort].shared / _CLAUSES_PER_ROW)
        drawer = self._drawer("shared")
        projects = any(demand.projects for demand in self.demands)
        for row in range(count):
            grouped: Grouped = "always" if row % 4 == 1 and self.limits.grouped else "no"
            # where the subject does not take these lengths, any will do
            turns = (Demand(domain(lengths=lengths, grouped=grouped), projects=projects)
                     for lengths in (_LENGTHS_IN_TURN[row % len(_LENGTHS_IN_TURN)], "any"))
            aims = (_BLOCKS_AIM,) if row // len(_LENGTHS_IN_TURN) == 1 else ()
            pinned = self._pin_lengths(aims, cap, drawer)
            rows = (self._draw_candidate(demand, pinned, cap, drawer) for demand in turns)
            if sizes := next(filter(None, rows), None):
                yield sizes

    def _shared_rows(self, demand: Demand, shared: Sequence[Sizes]) -> tuple[Sizes, ...]:
        """Those that the demand takes as they are; where that is hardly one, some of them changed
        for it.
        """
        most = EFFORTS[self.effort].largest
        # no other sizes, so that no clause makes a compiler run for itself
        fitting = [sizes for sizes in shared if demand.takes_sizes(sizes, self.limits)
                   and demand.work(sizes) <= most]
        if len(fitting) < _LEAST_SHARED_SIZES:
            changed = (demand.fit_within_cap(sizes, self.limits, most) for sizes in shared)
            fitting = [*fitting,
                       *(sizes for sizes in changed if sizes is not None)][:_LEAST_SHARED_SIZES]
        return tuple(dict.fromkeys(fitting))

    def _drawer(self, label: str) -> Drawer:
        return Drawer.from_label(self.seed, f"sizes {self.dtype.value} {label}")

    def _draw_candidate(self, demand: Demand, pinned: Mapping[str, int], cap: float,
                        drawer: Drawer) -> Sizes | None:
        """Axes in random order, each as long as the budget leaves room for beside those that are
        pinned.
        """
        table = self._distributions
        call = cap / demand.calls
        is_square = self.limits.lengths == "equal"
        pinned = square_lengths(pinned) if is_square else pinned
        # all short first: the budget is for the few axes that may be long
        lengths = {**{name: table[name].length_at(drawer.draw_share(), 1, most) for name,
                      most in _SMALL_LENGTHS.items()}, **pinned}
        # who comes first gets most of the room
        for name in drawer.shuffle_items(name for name in _SMALL_LENGTHS if name not in pinned):
            if is_square and name in SIDES:
                side = table[name].length_at(drawer.draw_share(), 1, longest_side(lengths, call))
                lengths.update(dict.fromkeys(SIDES, side))
            else:
                lengths[name] = table[name].length_at(drawer.draw_share(), 1,
                                                      room_for_axis(lengths, name, call))
        # a second slice may be taken for the first; of a single key all is known
        for name, few in _FEW_LENGTHS.items():
            more = {**lengths, name: few}
            is_free = lengths[name] == 1 and name not in pinned
            if is_free and drawer.draw_share() < _SECOND_SHARE and work_at(more) <= call:
                lengths = more
        for one, other, often in (("D", "Dv", _SAME_WIDTHS_SHARE), ("T", "S", _SQUARE_SHARE),
                                  ("S", "T", _SQUARE_SHARE)):
            same = {**lengths, other: lengths[one]}
            if other not in pinned and drawer.draw_share() < often and work_at(same) <= call:
                lengths = same
        return demand.fit_within_cap(sizes_of(lengths), self.limits, cap)


def _has_several_groups(sizes: Sizes) -> bool:
    """Whether there are several groups of several heads."""
    return sizes.H > sizes.Hkv > 1


def _is_telling(sizes: Sizes) -> bool:
    """Whether one case of these sizes shows most mistakes: several heads, queries, keys and
    features.
    """
    return (sizes.S in _TELLING_KEYS and sizes.B * sizes.H >= 2 and sizes.T >= 3
            and min(sizes.D, sizes.Dv) >= 2)


def _budget_weight(demand: Demand) -> int:
    """The part of the budget that a demand has, against others': where one answer is compared, the
    more the more keywords a case may have.
    """
    if demand.is_one_run:
        return _PLAIN_SHARE + len(demand.domain.always | demand.domain.sometimes)
    return 1


def sizes_of(lengths: Mapping[str, int]) -> Sizes:
    """H query heads, or as near to that as whole groups come."""
    B, H, G, T, S, D, Dv = (lengths[name] for name in AXES)
    kv_heads = max(1, H // G)
    return Sizes(B, kv_heads * G, kv_heads, T, S, D, Dv)


@lru_cache(maxsize=16)
def plan_for(demands: tuple[Demand, ...], limits: Limits, effort: Effort, seed: int, dtype: DType,
             *,
             compiles: bool, flipped: int, blocks: Blocks = (), hurries: bool = False) -> SizePlan:
    """The plan for these, which subjects that take the same share."""
    return SizePlan(demands, limits, effort, seed, dtype, compiles, flipped, blocks, hurries)


@dataclass(frozen=True, slots=True)
class Drawer:
    """Shares in [0, 1), one after the other, from a seed."""

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
        """The items in another order."""
        return [item for _, item in sorted((self.draw_share(), item) for item in items)]


# How long an axis may be beside the others, for a call to cost no more than it may


SIDES = ("T", "S")
"""The axes that are as long as one another where T = S."""


def room_for_axis(lengths: Mapping[str, int], name: str, cap: float) -> int:
    """How long an axis may be beside the others for a call to cost no more than `cap`; G goes with
    H.
    """
    plain = {**lengths, "G": 1} if name != "G" else {**lengths, "H": 1}
    one, two = (work_at({**plain, name: length}) for length in (1, 2))
    return max(1, int(1 + (cap - one) / (two - one)))  # the work is linear in every axis


def longest_side(lengths: Mapping[str, int], cap: float) -> int:
    """How many queries, and as many keys, there may be beside the other lengths."""
    one, two, three = (work_at({**lengths, **dict.fromkeys(SIDES, length)})
                       for length in (1, 2, 3))
    # three lengths fix a polynomial of the second degree
    square = (three - 2 * two + one) / 2  # the work is square * side² + linear * side
    linear = two - one - 3 * square
    return max(1, int((math.sqrt(linear**2 + 4 * square * cap) - linear) / (2 * square)))


def square_lengths(lengths: Mapping[str, int]) -> Mapping[str, int]:
    """Lengths with as many queries as keys, the more of both, where either is named."""
    sides = [lengths[name] for name in SIDES if name in lengths]
    return {**lengths, **dict.fromkeys(SIDES, max(sides))} if sides else lengths


_ANY_DEMAND = Demand(domain(grouped="maybe"))


@lru_cache(maxsize=64)
def taken_pairs(limits: Limits, keywords: frozenset[str]) -> int:
    """The set of pairs that a subject with these limits and keywords can be put at effort default."""
    return sum(bit for pair, bit in pair_bits().items()
               if (not isinstance(pair.other, str) or pair.other in keywords)
               and _is_taken(pair, limits))


def _is_taken(pair: BucketPair, limits: Limits) -> bool:
    """Whether a problem of the shortest or longest lengths that meet a pair is taken and cheap
    enough.
    """
    partners = partners_of(limits)
    spans = [(axis, _taken_span(axis, bucket_bounds(axis, bucket), limits, partners.get(axis, "")))
             for axis, bucket in pair.places]
    corners = ({axis: span[end] for (axis, span), end in zip(spans, ends, strict=True)}
               for ends in product((0, 1), repeat=len(spans)))
    fitted = (_ANY_DEMAND.fit_sizes(sizes_of({**dict.fromkeys(AXES, 1), **corner}), limits)
              for corner in corners)
    largest = EFFORTS[Effort.DEFAULT].largest
    return any(sizes is not None and _ANY_DEMAND.work(sizes) <= largest
               and _lies_in(sizes, pair.places) for sizes in fitted)


def _taken_span(axis: str, span: tuple[int, int], limits: Limits, partner: str) -> tuple[int, int]:
    """The span from its first length on that is taken along this axis."""
    least, most = span
    return limits.nearest(axis, least, partner=partner, least=least), most


def _lies_in(sizes: Sizes, places: Iterable[AxisBucket]) -> bool:
    lengths = lengths_of(sizes)
    return all(bucket_of(axis, lengths[axis]) == bucket for axis, bucket in places)
