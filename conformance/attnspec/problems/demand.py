"""Decides how long axes may be: the lengths that are drawn, those that a subject takes, and what
they cost.

Each axis has a distribution of its own. What goes wrong in real code goes wrong at the end of a
block, past a threshold, or at a width that no power of two divides. So both sides of every
multiple of 8, 16 … 512 weigh more than what lies between, widths are mostly those of models, and
small lengths come more often than large ones: they cost little, and findings are read on them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise

from attnspec.core.coverage import AXES, LONGEST
from attnspec.core.declaration import Limits
from attnspec.core.forms import CACHE
from attnspec.core.keywords import CACHED
from attnspec.core.sizes import RefusalCondition
from attnspec.problems.domain import Domain, Grouped, domain, spell_domain
from attnspec.problems.problem import Sizes, count_logits, count_work

BLOCKS = (8, 16, 32, 64, 128, 256, 512)
"""Lengths of the blocks into which kernels cut the axes T, S, D and Dv."""

STANDARD_WIDTHS = (16, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256)
"""Head widths of published models, from ViT's and Stable Diffusion's to DeepSeek's and Gemma's."""

_BLOCK_SHARE = 0.5   # of the weight of T and S, and of what is no standard width
_STANDARD_SHARE = 0.55    # of the weight of widths
_PRIME_FACTOR = 2.0        # times the weight of a length that is none
_OWN_BLOCK_SHARE = 0.5  # of the weight of an axis whose blocks the subject declares

Blocks = tuple[tuple[str, tuple[int, ...]], ...]
"""By axis, the lengths of the blocks into which a subject cuts it."""


@dataclass(frozen=True, slots=True)
class LengthDistribution:
    """The lengths of an axis from which problems draw, and how likely each is.

    lengths: ascending.  sums: for each, the sum of the weights up to it, with its own.  is_whole:
    whether nothing but cost keeps a subject from other lengths.
    """

    name: str
    lengths: tuple[int, ...]
    sums: tuple[float, ...]
    is_whole: bool = True

    def length_at(self, share: float, least: int = 1, most: int | None = None) -> int:
        """The length at this share of the cumulated weight, in [0, 1), between these bounds.

        A smaller share never stands for a longer one. If no length is there, it is `least`.
        """
        start = bisect_right(self.lengths, least - 1)
        end = len(self.lengths) if most is None else bisect_right(self.lengths, most)
        if start >= end:
            return least
        low = self.sums[start - 1] if start else 0.0
        weight = low + share * (self.sums[end - 1] - low)
        return self.lengths[min(max(bisect_right(self.sums, weight), start), end - 1)]

    def first_taken(self, least: int) -> int:
        """The least length that is taken and not below `least`."""
        if self.is_whole:
            return least
        start = bisect_right(self.lengths, least - 1)
        return self.lengths[min(start, len(self.lengths) - 1)]

    @property
    def length_weights(self) -> Mapping[int, float]:
        """The weight of each length."""
        weights = (high - low for low, high in pairwise((0.0, *self.sums)))
        return dict(zip(self.lengths, weights, strict=True))


@lru_cache(maxsize=256)
def taken_lengths(axis: LengthDistribution,
                  refusals: tuple[RefusalCondition, ...]) -> LengthDistribution:
    """The axis without lengths at which a condition holds; unchanged if none would be left."""
    weights = {length: weight for length, weight in axis.length_weights.items()
               if not any(each.holds_at({each.axis: length}) for each in refusals)}
    if refusals and weights:
        return replace(_length_distribution(axis.name, weights), is_whole=False)
    return axis


def _length_distribution(name: str, weights: Mapping[int, float]) -> LengthDistribution:
    lengths = tuple(sorted(weights))
    return LengthDistribution(name, lengths,
                              tuple(accumulate(weights[length] for length in lengths)))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % each for each in range(2, math.isqrt(number) + 1))


def _scale_weights(weights: Mapping[int, float], total: float) -> dict[int, float]:
    whole = sum(weights.values())
    return {length: weight * total / whole for length, weight in weights.items()}


def _add_weights(parts: Iterable[Mapping[int, float]]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for part in parts:
        for length, weight in part.items():
            weights[length] = weights.get(length, 0.0) + weight
    return weights


def _plain_weights(most: int) -> dict[int, float]:
    """The weights of all lengths: more for short ones, and for primes."""
    # below 8 all lengths are nearly as likely, and beyond they fall as cost rises
    return {length: (_PRIME_FACTOR if _is_prime(length) else 1.0) / (length + 8)
            for length in range(1, most + 1)}


def _block_weights(most: int) -> dict[int, float]:
    """The weights of the multiples of every block, one less and one more; later ones have less."""
    return _end_weights(BLOCKS, most)


def _end_weights(blocks: Iterable[int], most: int) -> dict[int, float]:
    weights: dict[int, float] = {}
    for block in blocks:
        for multiple in range(block, most + 1, block):
            for length in (multiple - 1, multiple, multiple + 1):
                # the m-th multiple of a block weighs 1/m: most mistakes show at the first ends
                if 1 <= length <= most:
                    weights[length] = weights.get(length, 0.0) + block / multiple
    return weights


def _token_weights(most: int) -> dict[int, float]:
    return _add_weights((_scale_weights(_plain_weights(most), 1 - _BLOCK_SHARE),
                         _scale_weights(_block_weights(most), _BLOCK_SHARE)))


MOST_TOKENS_THOROUGH = 8192


def length_distributions(*, is_thorough: bool = False,
                         blocks: Blocks = ()) -> Mapping[str, LengthDistribution]:
    """The distributions by axis. G is H/Hkv; H follows from Hkv and G.

    blocks: of a subject. Half of the weight of their axes lies at the ends of these.
    """
    usual = _usual_distributions(is_thorough=is_thorough)
    return {**usual, **{name: _add_own_blocks(usual[name], own) for name, own in blocks}}


@lru_cache(maxsize=16)
def _add_own_blocks(axis: LengthDistribution, blocks: tuple[int, ...]) -> LengthDistribution:
    """The axis with weight on both sides of every multiple of these blocks."""
    ends = _end_weights(blocks, axis.lengths[-1])
    share = _OWN_BLOCK_SHARE if ends else 0.0
    weights = _add_weights((_scale_weights(axis.length_weights, 1 - share),
                            _scale_weights(ends, share)))
    return _length_distribution(axis.name, weights)


@cache
def _usual_distributions(*, is_thorough: bool) -> Mapping[str, LengthDistribution]:
    tokens = _token_weights(MOST_TOKENS_THOROUGH if is_thorough else LONGEST["T"])
    widths = _add_weights((_scale_weights(_token_weights(LONGEST["D"]), 1 - _STANDARD_SHARE),
                           dict.fromkeys(STANDARD_WIDTHS, _STANDARD_SHARE / len(STANDARD_WIDTHS))))
    # 17 and 33 lie past powers of two
    batches = {1: 6.0, 2: 5.0, **dict.fromkeys(range(3, 10), 1.0), 17: 0.6, 33: 0.5}
    # the larger ones are those of published models; 71 is Falcon's, 17 and 33 are past a power of
    # two
    heads = {1: 4.0, 2: 4.0, 3: 2.0, 4: 3.0, **dict.fromkeys(range(5, 10), 1.2), 12: 1.0, 14: 0.5,
             16: 1.0, 17: 0.4, 20: 0.5, 28: 0.5, 32: 1.0, 33: 0.3, 40: 0.5, 64: 0.4, 71: 0.3,
             128: 0.3}
    # 7 and 71 are those of published models that no power of two divides
    groups = {1: 8.0, 2: 3.0, 3: 1.5, 4: 3.0, 5: 1.0, 6: 1.0, 7: 1.5, 8: 2.0, 16: 0.3, 71: 0.2}
    return {
        "B": _length_distribution("B", batches),
        "H": _length_distribution("H", heads),
        "G": _length_distribution("G", groups),
        "T": _length_distribution("T", tokens),
        "S": _length_distribution("S", tokens),
        "D": _length_distribution("D", widths),
        "Dv": _length_distribution("Dv", widths),
    }


def lengths_of(sizes: Sizes) -> dict[str, int]:
    """The lengths of the axes that have buckets (`core.coverage`), in their order."""
    by_axis = {**sizes.by_axis, "G": sizes.H // sizes.Hkv}
    return {name: by_axis[name] for name in AXES}


LONGEST_TIED = 512
"""The most queries and keys where both must be equal and one of them was to be long."""

_NO_LEAST: Mapping[str, int] = {}


def nearest_sizes(sizes: Sizes, limits: Limits, *, is_square: bool = False,
                  least: Mapping[str, int] = _NO_LEAST) -> Sizes:
    """The sizes with each axis, and each group of heads, at the nearest length that is taken.

    Axes that must be as long as another are at a length that both take.  is_square: whether T = S
    is required.  least: by axis, the least length.
    """
    if not limits.all_refusals:
        return sizes
    partners = partners_of(limits, is_square=is_square)
    widths = dict.fromkeys(("D", "Dv"), limits.min_head_width)
    nearest = {}
    for axis in ("B", "T", "S", "D", "Dv"):
        partner = partners.get(axis, "")
        lowest = max(each.get(name, 1) for each in (least, widths) for name in (axis, partner))
        nearest[axis] = limits.nearest(axis, sizes.by_axis[axis], partner=partner, least=lowest)
    return replace(sizes, **nearest, **_nearest_heads(sizes, limits, least))


def lengths_near(T: int, S: int, limits: Limits) -> tuple[int, int]:
    """The nearest numbers of queries and keys that are taken, compared to each other as before."""
    partners = partners_of(limits)
    queries = limits.nearest("T", T, partner=partners.get("T", ""))
    keys = limits.nearest("S", S, partner=partners.get("S", ""))
    # moved apart again: what was a comparison of lengths stays one
    if T < S and queries >= keys:
        keys = limits.nearest("S", queries + 1, least=queries + 1)
    if T > S and queries <= keys:
        queries = limits.nearest("T", keys + 1, least=keys + 1)
    if limits.lengths == "no_more_queries" and T <= S and queries > keys:
        keys = limits.nearest("S", queries, least=queries)
    return queries, keys


def partners_of(limits: Limits, *, is_square: bool = False) -> Mapping[str, str]:
    """By axis, the other one that must be equally long."""
    partners = dict[str, str]()
    if is_square or limits.ties_lengths:
        partners |= {"T": "S", "S": "T"}
    if limits.ties_value_width:
        partners |= {"D": "Dv", "Dv": "D"}
    return partners


def shortest_lengths(spans: Mapping[str, tuple[int, int]], limits: Limits) -> Mapping[str, int]:
    """The least lengths within these spans of some axes that a subject takes.

    Those of other axes are there, too, where the subject refuses something.
    """
    starts = {axis: least for axis, (least, _) in spans.items()}
    if not limits.all_refusals:
        return starts
    partners = partners_of(limits)
    least = {axis: max(starts.get(axis, 1), starts.get(partners.get(axis, ""), 1))
             for axis in AXES}
    return {axis: limits.nearest(axis, size, partner=partners.get(axis, ""), least=size)
            for axis, size in least.items()}


def _nearest_heads(sizes: Sizes, limits: Limits, least: Mapping[str, int]) -> dict[str, int]:
    """The nearest numbers of heads, and of those in a group, that are taken."""
    group = limits.nearest("G", sizes.H // sizes.Hkv, least=least.get("G", 1))
    heads = limits.nearest("H", sizes.H, least=least.get("H", 1))
    kv_heads = -(-heads // group)
    return {"H": kv_heads * group, "Hkv": kv_heads}


def fit_to_limits(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes within the limits on single axes, and on axes that must be equal."""
    sizes = nearest_sizes(sizes, limits)
    if limits.ties_value_width:
        sizes = replace(sizes, Dv=sizes.D)
    if limits.grouped is False:
        sizes = replace(sizes, Hkv=sizes.H)
    # the longer of the two, but no more than both may be: cost goes with the square
    if limits.lengths == "equal" and sizes.T != sizes.S:
        length = limits.nearest("T", min(max(sizes.T, sizes.S), LONGEST_TIED), partner="S")
        sizes = replace(sizes, T=length, S=length)
    if limits.lengths == "no_more_queries" and sizes.T > sizes.S:
        sizes = replace(sizes, T=sizes.S, S=sizes.T)
    return sizes


def adapt_sizes(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes that a subject can take: one head, wide heads, equal widths, a large batch."""
    if limits.single_head:
        sizes = replace(sizes, H=1, Hkv=1)
    least = limits.min_head_width
    if min(sizes.D, sizes.Dv) < least:
        sizes = replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, least))
    if limits.ties_value_width:
        sizes = replace(sizes, Dv=sizes.D)
    sizes = nearest_sizes(sizes, limits)
    # a larger batch changes nothing else about a problem
    factor = -(-limits.min_scores // max(1, count_logits(sizes)))
    return replace(sizes, B=sizes.B * factor) if factor > 1 else sizes


def halve_costliest(sizes: Sizes, cost_sizes: Sizes) -> Sizes:
    """The sizes with half of what costs most.

    cost_sizes: the sizes once these are fitted. Heads go before lengths, lengths before widths.
    """
    # eight times: heads and entries repeat what one of them does, lengths and widths do not
    axes = {"B": 8 * cost_sizes.B, "Hkv": 8 * cost_sizes.Hkv, "T": cost_sizes.T,
            "S": cost_sizes.S, "D": cost_sizes.D, "Dv": cost_sizes.Dv}
    name = max(axes, key=lambda each: axes[each] if getattr(sizes, each) > 1 else 0)
    half = max(1, getattr(sizes, name) // 2)
    if name == "Hkv":
        return replace(sizes, Hkv=half, H=half * (sizes.H // sizes.Hkv))
    return replace(sizes, **{name: half})


MOST_ENTRIES = 2**24
"""Upper limit of the scores of a problem, and of twice the entries of query, key and value, which
are copied more often.
"""

MOST_FEATURES = 1536
"""Upper limit of H·D of a layer: its projections have the square of that many numbers."""

MOST_READING_CALLS = 4
"""Upper limit of the S/Dv calls that read the weights of a case: many keys, wide values."""

MOST_PIECES: Mapping[str, int] = {"B": 9, "H": 12, "T": 33}
"""Upper limit of an axis along which a run takes a problem apart, one call for each piece."""

_ANY_DOMAIN = domain()
_MOST_HALVINGS = 64
_ANY_LENGTH = (1, MOST_TOKENS_THOROUGH)


@dataclass(frozen=True, slots=True)
class Demand:
    """The problems of a clause, and how they are looked at. Clauses with equal demands are dealt
    the same sizes.

    reads: whether weights are read out through the values.
    cut_axes: those along which a run takes a problem apart.  runs: how many runs a case has.
    passes: 2 where gradients are compared, for a call forward and one back.
    projects: whether the subject is a layer, whose projections cost, too.
    flips: whether variants of the subject are asked, which may compile for every shape.
    pool: the name of the clauses that share out the pairs of sizes. A clause that is added to one
    leaves the sizes of the others as they are.
    """

    domain: Domain
    reads: bool = False
    cut_axes: str = ""
    runs: int = 1
    passes: int = 1
    projects: bool = False
    flips: bool = False
    pool: str = ""

    @property
    def demand_text(self) -> str:
        """The demand as text, the same in every process: it seeds the dealing."""
        return (f"{spell_domain(self.domain)} {self.reads} {self.cut_axes} "
                f"{self.runs * self.passes} {self.projects}")

    @property
    def is_one_run(self) -> bool:
        """Whether a case is one run whose answer or gradients are compared."""
        return self.runs == 1 and not self.reads and not self.projects

    @property
    def is_general(self) -> bool:
        """Whether a case is one call with any problem, and needs no keyword."""
        any_problem = replace(_ANY_DOMAIN, sometimes=self.domain.sometimes,
                              grouped=self.domain.grouped)
        return self.is_one_run and self.domain == any_problem

    def work(self, sizes: Sizes) -> int:
        """About how many multiply-adds a case costs.

        B·H·T·S·(D + Dv + 100) for each call, and a layer's projections.
        """
        work = count_work(sizes)
        if self.projects:
            work += 4 * sizes.B * (sizes.T + sizes.S) * _projected_width(sizes)**2
        # weights are read Dv keys a call
        calls = self.runs * self.passes * (-(-sizes.S // sizes.Dv) if self.reads else 1)
        return work * calls

    @property
    def calls(self) -> int:
        """About how many calls a case takes."""
        return self.runs * self.passes * (2 if self.reads else 1) + bool(self.cut_axes)

    def meeting_key(self, limits: Limits) -> Hashable:
        """What `can_meet` depends on: demands with the same key can meet the same."""
        domain = self.domain
        is_square = self._needs_equal_lengths(1, 2, limits)
        return domain.lengths, self.grouping(limits), is_square, self.reads, self.cut_axes

    def can_meet(self, spans: Mapping[str, tuple[int, int]], limits: Limits) -> bool:
        """Whether a problem can have lengths within these spans; True if it is unclear."""
        least_t, most_t = spans.get("T", _ANY_LENGTH)
        least_s, most_s = spans.get("S", _ANY_LENGTH)
        # both have the tighter of both spans
        if self._always_needs_equal_lengths(limits):
            least_t = least_s = max(least_t, least_s)
            most_t = most_s = min(most_t, most_s)
        has_groups = self.grouping(limits) != "no" and limits.grouped is True
        groups, values = spans.get("G", _ANY_LENGTH), spans.get("Dv", _ANY_LENGTH)
        return (least_t <= most_t and (has_groups or groups[0] == 1)
                and not (self.domain.grouped == "always" and groups[1] == 1)
                and not (self.domain.lengths == "more_keys" and least_t >= most_s)
                and not (self.domain.lengths == "more_queries" and most_t <= least_s)
                and not (self.reads and least_s > MOST_READING_CALLS * values[1])
                and (not limits.all_refusals or self._has_taken(spans, limits))
                and all(spans.get(axis, _ANY_LENGTH)[0] <= MOST_PIECES[axis]
                        for axis in self.cut_axes))

    def grouping(self, limits: Limits) -> Grouped:
        """Whether query heads share key heads. A clause that wants no groups may get them."""
        # a kernel of grouped heads may refuse one head a group
        if self.domain.grouped == "no" and limits.grouped is True and limits.nearest("G", 1) > 1:
            return "maybe"
        return self.domain.grouped

    def _has_taken(self, spans: Mapping[str, tuple[int, int]], limits: Limits) -> bool:
        """Whether the subject takes a length within each of these spans."""
        partners = partners_of(limits, is_square=self._always_needs_equal_lengths(limits))
        return all(limits.nearest(axis, least, partner=partners.get(axis, ""), least=least) <= most
                   for axis, (least, most) in spans.items())

    def fit_sizes(self, sizes: Sizes, limits: Limits) -> Sizes | None:
        """The sizes, changed as little as is needed; None where nothing suits both."""
        # what the clause wants first, then what the subject takes, then what costs too much
        sizes = self._set_lengths(self._set_heads(sizes, limits), limits)
        if self.domain.min_batch > sizes.B:
            sizes = replace(sizes, B=self.domain.min_batch)
        sizes = self._set_widths(sizes, limits)
        sizes = self._widen_values(self._move_to_taken(adapt_sizes(sizes, limits), limits), limits)
        sizes = self._limit_stored_work(self._limit_projected_heads(sizes))
        return sizes if self.takes_sizes(sizes, limits) else None

    def _set_widths(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Heads as wide as the clause requires; tied widths are the wider of the two."""
        least, of_values = self.domain.min_width, self.domain.min_value_width
        if of_values > 1 and limits.ties_value_width:
            least = max(least, of_values)
        if least <= sizes.D and of_values <= sizes.Dv:
            return sizes
        return replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, of_values))

    def _move_to_taken(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Lengths and widths that the subject takes and the clause is about."""
        if not limits.all_refusals:
            return sizes
        domain, is_square = self.domain, self._always_needs_equal_lengths(limits)
        least = {"B": domain.min_batch, "T": domain.min_queries, "S": domain.min_keys,
                 "D": domain.min_width, "Dv": domain.min_value_width, "H": domain.min_heads,
                 "G": 2 if domain.grouped == "always" else 1}
        sizes = nearest_sizes(sizes, limits, is_square=is_square, least=least)
        if self._lengths_fit(sizes, limits):
            return sizes
        if domain.lengths == "more_queries":
            return replace(sizes, T=limits.nearest("T", sizes.S + 1, least=sizes.S + 1))
        least_keys = sizes.T + 1 if domain.lengths in {"cross", "more_keys"} else sizes.T
        return replace(sizes, S=limits.nearest("S", least_keys, least=least_keys))

    def _set_heads(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Grouped heads where the clause requires them, and only where the subject takes them."""
        domain, group, kv_heads = self.domain, sizes.H // sizes.Hkv, sizes.Hkv
        grouping = self.grouping(limits)
        if (grouping == "no" or _refuses_groups(limits)
            or (grouping == "maybe" and not limits.grouped)):
            group = 1
        elif domain.grouped == "always":
            group = max(group, 2)
        kv_heads = max(kv_heads, -(-domain.min_heads // group))
        # one call a head: no more of them than calls are to be made
        if "H" in self.cut_axes:
            kv_heads = min(kv_heads, max(1, MOST_PIECES["H"] // group))
            group = min(group, MOST_PIECES["H"])
        if (sizes.H, sizes.Hkv) == (kv_heads * group, kv_heads):
            return sizes
        return replace(sizes, H=kv_heads * group, Hkv=kv_heads)

    def _set_lengths(self, sizes: Sizes, limits: Limits) -> Sizes:
        domain = self.domain
        T, S = max(sizes.T, domain.min_queries), max(sizes.S, domain.min_keys)
        if "T" in self.cut_axes:
            T = min(T, MOST_PIECES["T"])
        may_swap = "T" not in self.cut_axes
        # swapped and not cut: both lengths were drawn for a reason
        is_wrong_way = {"more_queries": T < S, "more_keys": T > S}.get(domain.lengths, False)
        if is_wrong_way and may_swap:
            T, S = S, T
        if self._is_step(limits) and T >= S and "new_as_queries" in domain.values[CACHED[0]]:
            T, S = (S, max(T, S + 1)) if may_swap else (T, T + 1)
        if T == S and domain.lengths == "more_queries":
            T += 1
        elif T == S and domain.lengths not in {"any", "self"}:
            S += 1
        if domain.lengths == "self" or self._needs_equal_lengths(T, S, limits):
            S = T = max(T, domain.min_keys)
        B = min(sizes.B, MOST_PIECES["B"]) if "B" in self.cut_axes else sizes.B
        if (sizes.T, sizes.S, sizes.B) == (T, S, B):
            return sizes
        return replace(sizes, T=T, S=S, B=B)

    def _is_step(self, limits: Limits) -> bool:
        """Whether the subject takes exactly as many new keys as queries, and so T < S."""
        return limits.is_behind_past(self.domain.always)

    def _always_needs_equal_lengths(self, limits: Limits) -> bool:
        """Whether clause and subject together leave only T = S."""
        return self.domain.lengths == "self" or self._needs_equal_lengths(1, 2, limits)

    def _needs_equal_lengths(self, T: int, S: int, limits: Limits) -> bool:
        """Whether the subject takes such lengths only where they are equal."""
        if self._is_step(limits):
            return False
        if limits.self_attention_only or self.domain.inputs == "one":
            return True
        return not limits.takes_lengths(T, S, causal="causal" in self.domain.always)

    def _widen_values(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Values that are wide enough for the weights to be read in few calls."""
        if not self.reads:
            return sizes
        least = -(-sizes.S // MOST_READING_CALLS)
        # S / Dv calls read the weights of all keys
        wider = replace(sizes, Dv=limits.nearest("Dv", sizes.Dv, least=least))
        if limits.ties_value_width:
            width = limits.nearest("D", max(wider.D, wider.Dv), partner="Dv", least=least)
            return replace(wider, D=width, Dv=width)
        return wider

    def _limit_projected_heads(self, sizes: Sizes) -> Sizes:
        """No more key/value heads than the projections of a layer may be wide."""
        if not self.projects or _projected_width(sizes) <= MOST_FEATURES:
            return sizes
        group = sizes.H // sizes.Hkv
        kv_heads = max(1, self.domain.min_heads // group,
                       MOST_FEATURES // (group * max(sizes.D, sizes.Dv)))
        return replace(sizes, Hkv=kv_heads, H=kv_heads * group)

    def _limit_stored_work(self, sizes: Sizes) -> Sizes:
        """Fewer entries, key/value heads and heads of a group, in this order, for decoders.

        The call before it stores all keys at once, and may not have too many scores.
        """
        if self._most_scores(sizes) <= MOST_ENTRIES:
            return sizes
        least = {"B": self.domain.min_batch,
                 "Hkv": -(-self.domain.min_heads * sizes.Hkv // sizes.H),
                 "group": 2 if self.domain.grouped == "always" else 1}
        counts = {"B": sizes.B, "Hkv": sizes.Hkv, "group": sizes.H // sizes.Hkv}
        for name, few in least.items():
            excess = -(-self._most_scores(sizes) // MOST_ENTRIES)
            counts[name] = min(counts[name], max(1, few, counts[name] // max(1, excess)))
            sizes = replace(sizes, B=counts["B"], Hkv=counts["Hkv"],
                            H=counts["Hkv"] * counts["group"])
        return sizes

    def _most_scores(self, sizes: Sizes) -> int:
        """The scores of a decoder's call that stores all keys; 0 for others."""
        is_stepped = CACHE in self.domain.always or CACHE in self.domain.sometimes
        return sizes.B * sizes.H * sizes.S * sizes.S if is_stepped else 0

    def fit_within_cap(self, sizes: Sizes, limits: Limits, cap: float) -> Sizes | None:
        """The sizes, fitted, and halved axis by axis until they cost no more than `cap`."""
        for _ in range(_MOST_HALVINGS):
            candidate = self.fit_sizes(sizes, limits)
            if candidate is not None and self.work(candidate) <= cap:
                return candidate
            if candidate is None and not limits.all_refusals:
                return None
            sizes = halve_costliest(sizes, candidate or sizes)
        return None

    def takes_sizes(self, sizes: Sizes, limits: Limits) -> bool:
        """Whether clause and subject take exactly these sizes, and they are small enough."""
        return (_is_drawn(sizes) and self._most_scores(sizes) <= MOST_ENTRIES
                and max(sizes.T, sizes.S) <= MOST_TOKENS_THOROUGH and self.suits(sizes, limits))

    def suits(self, sizes: Sizes, limits: Limits) -> bool:
        """Whether clause and subject take a problem of exactly these sizes, whatever it costs."""
        return (self._heads_fit(sizes, limits) and self._lengths_fit(sizes, limits)
                and self.domain.min_batch <= sizes.B and self.domain.min_width <= sizes.D
                and self.domain.min_value_width <= sizes.Dv
                and limits.min_scores <= count_logits(sizes)
                and limits.min_head_width <= min(sizes.D, sizes.Dv)
                and not (limits.all_refusals
                         and limits.misfit_of(sizes.by_axis, self.domain.always_within(limits)))
                and not (self.reads and -(-sizes.S // sizes.Dv) > MOST_READING_CALLS)
                and not (self.projects and _projected_width(sizes) > MOST_FEATURES)
                and all(getattr(sizes, axis) <= MOST_PIECES[axis] for axis in self.cut_axes))

    def _lengths_fit(self, sizes: Sizes, limits: Limits) -> bool:
        T, S = sizes.T, sizes.S
        compares = {"any": True, "self": T == S, "cross": T != S, "more_queries": T > S,
                    "more_keys": T < S}[self.domain.lengths]
        return (compares and self.domain.min_queries <= T and self.domain.min_keys <= S
                and not (T != S and self._needs_equal_lengths(T, S, limits))
                and (self._is_step(limits)
                     or limits.takes_lengths(T, S, causal="causal" in self.domain.always)))

    def _heads_fit(self, sizes: Sizes, limits: Limits) -> bool:
        if self.domain.min_heads > sizes.H or (limits.single_head and sizes.H > 1):
            return False
        is_grouped = sizes.Hkv < sizes.H
        if self.domain.grouped == "always":
            return is_grouped and not _refuses_groups(limits)
        return not is_grouped or (self.grouping(limits) == "maybe" and limits.grouped is True
                                  and not limits.single_head)


def _projected_width(sizes: Sizes) -> int:
    """The model width of a layer with these heads."""
    return sizes.H * max(sizes.D, sizes.Dv)


def _is_drawn(sizes: Sizes) -> bool:
    """Whether no array of a problem of these sizes takes too much memory."""
    entries = sizes.B * sizes.H * (sizes.T + sizes.S) * max(sizes.D, sizes.Dv)
    return max(count_logits(sizes), 2 * entries) <= MOST_ENTRIES


def _refuses_groups(limits: Limits) -> bool:
    return limits.grouped is False or limits.single_head
