"""How long axes may be: with which lengths they are drawn, where a subject takes them, and what a
case of a size costs.

Each axis has a distribution of its own. What goes wrong in real code goes wrong at the end of a
block, past a threshold, or at a width that no power of two divides. So both sides of every
multiple of 8, 16 … 512 weigh more than what lies between, widths are mostly those that models
have, and small lengths come more often than large ones: they cost little, and findings are read on
them.
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
from attnspec.core.forms import STATE
from attnspec.core.keywords import CACHED
from attnspec.core.sizes import RefusalCondition
from attnspec.problems.domain import Domain, Grouped, domain, spell_domain
from attnspec.problems.problem import Sizes, count_logits, count_work

BLOCKS = (8, 16, 32, 64, 128, 256, 512)
"""What kernels cut the axes T, S, D and Dv into."""

STANDARD_WIDTHS = (16, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256)
"""Head widths of published models, from ViT's and Stable Diffusion's to DeepSeek's and Gemma's."""

_BLOCK_SHARE = 0.5   # of the weight of T and S, and of what is no standard width
_STANDARD_SHARE = 0.55    # of the weight of widths
_PRIME_FACTOR = 2.0        # times the weight of a length that is none
_OWN_BLOCK_SHARE = 0.5  # of the weight of an axis whose blocks the subject declares

Blocks = tuple[tuple[str, tuple[int, ...]], ...]
"""By axis, the lengths of the blocks that a subject cuts it into."""


@dataclass(frozen=True, slots=True)
class LengthDistribution:
    """The lengths of an axis from which problems draw, and how likely each is.

    lengths: ascending.  sums: for each, the sum of the weights up to it, its own among them.
    is_whole: whether nothing but cost keeps a subject from other lengths.
    """

    name: str
    lengths: tuple[int, ...]
    sums: tuple[float, ...]
    is_whole: bool = True

    def length_at(self, share: float, least: int = 1, most: int | None = None) -> int:
        """The length that a share in [0, 1) of the weight between these bounds stands for; a
        smaller share never stands for a longer one. `least` where no length lies between them.
        """
        start = bisect_right(self.lengths, least - 1)
        end = len(self.lengths) if most is None else bisect_right(self.lengths, most)
        if start >= end:
            return least
        before = self.sums[start - 1] if start else 0.0
        weight = before + share * (self.sums[end - 1] - before)
        return self.lengths[min(max(bisect_right(self.sums, weight), start), end - 1)]


    def first_taken(self, least: int) -> int:
        """The least length that is taken and no less than this one."""
        start = bisect_right(self.lengths, least - 1)
        return least if self.is_whole else self.lengths[min(start, len(self.lengths) - 1)]

    @property
    def length_weights(self) -> Mapping[int, float]:
        """The weight of each length."""
        return dict(zip(self.lengths, (b - a for a, b in pairwise((0.0, *self.sums))),
                        strict=True))


@lru_cache(maxsize=256)
def taken_lengths(axis: LengthDistribution,
                  refused: tuple[RefusalCondition, ...]) -> LengthDistribution:
    """The axis without the lengths at which one of these conditions holds: as it is where they
    leave none.
    """
    taken = {length: weight for length, weight in axis.length_weights.items()
             if not any(each.holds_at({each.axis: length}) for each in refused)}
    if refused and taken:
        return replace(_length_distribution(axis.name, taken), is_whole=False)
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
    """Every length, steeper near the small end, primes more often."""
    # below 8 all lengths are nearly as likely, and beyond they fall as cost rises
    return {length: (_PRIME_FACTOR if _is_prime(length) else 1.0) / (length + 8)
            for length in range(1, most + 1)}


def _block_weights(most: int) -> dict[int, float]:
    """The multiples of every block, one less and one more; the first multiples more often than
    later ones.
    """
    return _end_weights(BLOCKS, most)


def _end_weights(blocks: Iterable[int], most: int) -> dict[int, float]:
    # the m-th multiple of a block weighs 1/m: most mistakes show at the first ends
    near = ({multiple + side: block / multiple}
            for block in blocks for multiple in range(block, most + 1, block)
            for side in (-1, 0, 1))
    return {length: weight for length, weight in _add_weights(near).items() if 1 <= length <= most}


def _token_weights(most: int) -> dict[int, float]:
    return _add_weights((_scale_weights(_plain_weights(most), 1 - _BLOCK_SHARE),
                         _scale_weights(_block_weights(most), _BLOCK_SHARE)))


MOST_TOKENS_THOROUGH = 8192


def length_distributions(*, is_thorough: bool = False,
                         blocks: Blocks = ()) -> Mapping[str, LengthDistribution]:
    """The axes by letter. G is H/Hkv; H follows from Hkv and G.

    blocks: those of a subject: half of the weight of their axes lies on the ends of these.
    """
    usual = _usual_distributions(is_thorough=is_thorough)
    return {**usual, **{name: _add_own_blocks(usual[name], own) for name, own in blocks}}


@lru_cache(maxsize=16)
def _add_own_blocks(axis: LengthDistribution, blocks: tuple[int, ...]) -> LengthDistribution:
    """The axis with weight on both sides of every multiple of these blocks, as far as it is drawn."""
    ends = _end_weights(blocks, axis.lengths[-1])
    share = _OWN_BLOCK_SHARE if ends else 0.0
    return _length_distribution(axis.name,
                                _add_weights((_scale_weights(axis.length_weights, 1 - share),
                                              _scale_weights(ends, share))))


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
             16: 1.0,
             17: 0.4, 20: 0.5, 28: 0.5, 32: 1.0, 33: 0.3, 40: 0.5, 64: 0.4, 71: 0.3, 128: 0.3}
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
    return {name: sizes.H // sizes.Hkv if name == "G" else getattr(sizes, name) for name in AXES}


LONGEST_TIED = 512
"""Queries and keys of a problem that was to be long along one of them only, where both must be the
same.
"""

_NO_LEAST: Mapping[str, int] = {}


def nearest_sizes(sizes: Sizes, limits: Limits, *, is_square: bool = False,
                  least: Mapping[str, int] = _NO_LEAST) -> Sizes:
    """The sizes with each axis, and each group of heads, at the nearest size that is taken by
    itself: axes that must be as long as another, at one that both take.

    is_square: T = S is asked for.  least: by axis, what it may not fall below.
    """
    if not limits.all_refusals:
        return sizes
    partners = partners_of(limits, is_square=is_square)
    widths = dict.fromkeys(("D", "Dv"), limits.min_head_width)
    moved = {}
    for axis in ("B", "T", "S", "D", "Dv"):
        partner = partners.get(axis, "")
        lowest = max(each.get(name, 1) for each in (least, widths) for name in (axis, partner))
        moved[axis] = limits.nearest(axis, sizes.by_axis[axis], partner=partner, least=lowest)
    return replace(sizes, **moved, **_nearest_heads(sizes, limits, least))


def lengths_near(T: int, S: int, limits: Limits) -> tuple[int, int]:
    """The nearest numbers of queries and keys that are taken, of which the same is the larger."""
    partners = partners_of(limits)
    queries, keys = (limits.nearest(axis, size, partner=partners.get(axis, ""))
                     for axis, size in (("T", T), ("S", S)))
    # moved apart again: what was a comparison of lengths stays one
    if T < S and queries >= keys:
        keys = limits.nearest("S", queries + 1, least=queries + 1)
    if T > S and queries <= keys:
        queries = limits.nearest("T", keys + 1, least=keys + 1)
    if limits.lengths == "no_more_queries" and T <= S and queries > keys:
        keys = limits.nearest("S", queries, least=queries)
    return queries, keys


def partners_of(limits: Limits, *, is_square: bool = False) -> Mapping[str, str]:
    """Finds for each axis the other one that must be as long."""
    lengths = {"T": "S", "S": "T"} if is_square or limits.ties_lengths else {}
    return {**lengths, **({"D": "Dv", "Dv": "D"} if limits.ties_value_width else {})}


def shortest_lengths(spans: Mapping[str, tuple[int, int]], limits: Limits) -> Mapping[str, int]:
    """The least lengths within these spans of some axes, as far as the subject takes them; and of
    the others, where it does not take an axis of 1.
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
    """The nearest numbers of heads, and of those in a group, that are taken; more heads where they
    fill no groups.
    """
    group = limits.nearest("G", sizes.H // sizes.Hkv, least=least.get("G", 1))
    heads = limits.nearest("H", sizes.H, least=least.get("H", 1))
    kv_heads = -(-heads // group)
    return {"H": kv_heads * group, "Hkv": kv_heads}


def fit_to_limits(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes within limits on any of the axes and on what must be the same as another."""
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
    """These sizes within what the subject can take: one head, wide enough heads, values as wide as
    keys, a batch large enough.
    """
    if limits.single_head:
        sizes = replace(sizes, H=1, Hkv=1)
    least = limits.min_head_width
    sizes = replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, least))
    sizes = replace(sizes, Dv=sizes.D) if limits.ties_value_width else sizes
    sizes = nearest_sizes(sizes, limits)
    # a larger batch changes nothing else about a problem
    missing = -(-limits.min_scores // max(1, sizes.B * sizes.H * sizes.T * sizes.S))
    return replace(sizes, B=sizes.B * missing) if missing > 1 else sizes


def halve_costliest(sizes: Sizes, fitted: Sizes) -> Sizes:
    """The sizes with half of what costs most once they are fitted: heads before lengths, lengths
    before widths.
    """
    # eight times: heads and entries repeat what one of them does, lengths and widths do not
    axes = {"B": 8 * fitted.B, "Hkv": 8 * fitted.Hkv, "T": fitted.T, "S": fitted.S, "D": fitted.D,
            "Dv": fitted.Dv}
    name = max(axes, key=lambda each: axes[each] if getattr(sizes, each) > 1 else 0)
    half = max(1, getattr(sizes, name) // 2)
    if name == "Hkv":
        return replace(sizes, Hkv=half, H=half * (sizes.H // sizes.Hkv))
    return replace(sizes, **{name: half})


MOST_ENTRIES = 2**24
"""Scores of a problem that is drawn, and twice the entries of its query, key and value: these are
copied more often.
"""

MOST_FEATURES = 1536
"""H·D of a layer that is drawn: its projections are so many numbers squared."""

MOST_READING_CALLS = 4
"""Calls that reading the weights of one case may take: S/Dv of them, so values are wide where
there are many keys.
"""

MOST_PIECES: Mapping[str, int] = {"B": 9, "H": 12, "T": 33}
"""How long an axis may be along which a run takes a problem apart, one call a piece."""

_ANY_DOMAIN = domain()
_MOST_HALVINGS = 64
_ANY_LENGTH = (1, MOST_TOKENS_THOROUGH)

@dataclass(frozen=True, slots=True)
class Demand:
    """The problems of a clause, and how they are looked at. Clauses that ask the same are dealt
    the same sizes.

    reads: whether weights are read out through the values.  cut_axes: those along which a run
    takes a problem apart.  runs: how many runs a case has.  passes: 2 where gradients are compared:
    a call forward and one back.  projects: whether the subject is a layer, whose projections cost,
    too.
    flips: whether variants of the subject are asked, which may compile for every shape.  pool: the
    name of the clauses that share out the pairs of sizes; a clause that is added to one leaves the
    sizes of all others as they are.
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
        """The demand as text, the same in every process: it seeds what is dealt."""
        return (f"{spell_domain(self.domain)} {self.reads} {self.cut_axes} "
                f"{self.runs * self.passes} {self.projects}")

    @property
    def is_one_run(self) -> bool:
        """Whether a case is one run whose answer, or gradients, are compared: such cases may be
        large.
        """
        return self.runs == 1 and not self.reads and not self.projects

    @property
    def is_general(self) -> bool:
        """Whether a case is any problem without a keyword that it must have, and one call."""
        any_problem = replace(_ANY_DOMAIN, sometimes=self.domain.sometimes,
                              grouped=self.domain.grouped)
        return self.is_one_run and self.domain == any_problem

    def work(self, sizes: Sizes) -> int:
        """About how many multiply-adds a case costs: B·H·T·S·(D + Dv + 100) a call, and a layer's
        projections.
        """
        # weights are read Dv keys a call
        calls = self.runs * self.passes * (-(-sizes.S // sizes.Dv) if self.reads else 1)
        features = _projected_width(sizes) if self.projects else 0
        return ((count_work(sizes) + 4 * sizes.B * (sizes.T + sizes.S) * features * features)
                * calls)

    @property
    def calls(self) -> int:
        """About how many calls a case takes."""
        return self.runs * self.passes * (2 if self.reads else 1) + bool(self.cut_axes)

    def meeting_key(self, limits: Limits) -> Hashable:
        """What `can_meet` hangs on: the same for demands that may meet the same."""
        domain = self.domain
        is_square = self._needs_equal_lengths(1, 2, limits)
        return domain.lengths, self.grouping(limits), is_square, self.reads, self.cut_axes

    def can_meet(self, spans: Mapping[str, tuple[int, int]], limits: Limits) -> bool:
        """Whether a problem of the demand can have lengths within these spans of some axes; True
        where that is not clear.
        """
        (least_t, most_t), (least_s, most_s) = (spans.get(axis, _ANY_LENGTH) for axis in "TS")
        # both have the tighter of both spans
        if self._always_needs_equal_lengths(limits):
            least_t = least_s = max(least_t, least_s)
            most_t = most_s = min(most_t, most_s)
        is_grouped = self.grouping(limits) != "no" and limits.grouped is True
        groups, values = spans.get("G", _ANY_LENGTH), spans.get("Dv", _ANY_LENGTH)
        return (least_t <= most_t and (is_grouped or groups[0] == 1)
                and not (self.domain.grouped == "always" and groups[1] == 1)
                and not (self.domain.lengths == "more_keys" and least_t >= most_s)
                and not (self.domain.lengths == "more_queries" and most_t <= least_s)
                and not (self.reads and least_s > MOST_READING_CALLS * values[1])
                and (not limits.all_refusals or self._has_taken(spans, limits))
                and all(spans.get(axis, _ANY_LENGTH)[0] <= MOST_PIECES[axis]
                        for axis in self.cut_axes))

    def grouping(self, limits: Limits) -> Grouped:
        """Whether query heads share key/value heads: a clause that does not ask for it is put so
        where it has to be.
        """
        # a kernel of grouped heads may refuse one head a group
        is_only_grouped = limits.grouped is True and limits.nearest("G", 1) > 1
        return "maybe" if self.domain.grouped == "no" and is_only_grouped else self.domain.grouped

    def _has_taken(self, spans: Mapping[str, tuple[int, int]], limits: Limits) -> bool:
        """Whether the subject takes a length within each of these spans."""
        partners = partners_of(limits, is_square=self._always_needs_equal_lengths(limits))
        return all(limits.nearest(axis, least, partner=partners.get(axis, ""), least=least) <= most
                   for axis, (least, most) in spans.items())

    def fit_sizes(self, sizes: Sizes, limits: Limits) -> Sizes | None:
        """These sizes, changed as little as need be for clause and subject to take them; None
        where that cannot be.
        """
        # what the clause wants first, then what the subject takes, then what costs too much
        sizes = self._set_lengths(self._set_heads(sizes, limits), limits)
        sizes = self._set_widths(replace(sizes, B=max(sizes.B, self.domain.min_batch)), limits)
        sizes = self._widen_values(self._move_to_taken(adapt_sizes(sizes, limits), limits), limits)
        sizes = self._limit_stored_work(self._limit_projected_heads(sizes))
        return sizes if self.takes_sizes(sizes, limits) else None

    def _set_widths(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Heads as wide as the clause wants them; where values are as wide as keys, the wider of
        the two.
        """
        least, of_values = self.domain.min_width, self.domain.min_value_width
        if of_values > 1 and limits.ties_value_width:
            least = max(least, of_values)
        return replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, of_values))

    def _move_to_taken(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Lengths and widths that the subject takes, and of which the clause speaks."""
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
        is_unlike = domain.lengths in {"cross", "more_keys"}
        return replace(sizes,
                       S=limits.nearest("S", sizes.T + is_unlike, least=sizes.T + is_unlike))

    def _set_heads(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Grouped where the clause wants it, and only where the subject takes it."""
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
            group, kv_heads = min(group, MOST_PIECES["H"]), min(kv_heads,
                                                                max(1, MOST_PIECES["H"] // group))
        return replace(sizes, H=kv_heads * group, Hkv=kv_heads)

    def _set_lengths(self, sizes: Sizes, limits: Limits) -> Sizes:
        domain = self.domain
        T, S = max(sizes.T, domain.min_queries), max(sizes.S, domain.min_keys)
        if "T" in self.cut_axes:
            T = min(T, MOST_PIECES["T"])
        # swapped and not cut: both lengths were drawn for a reason
        is_swapped = {"more_queries": T < S, "more_keys": T > S}.get(domain.lengths, False)
        if is_swapped and "T" not in self.cut_axes:
            T, S = S, T
        if self._is_step(limits) and T >= S and "new_as_queries" in domain.values[CACHED[0]]:
            T, S = (S, T + (T == S)) if "T" not in self.cut_axes else (T, T + 1)
        if domain.lengths not in {"any", "self"} and T == S:
            T, S = (T + 1, S) if domain.lengths == "more_queries" else (T, S + 1)
        if domain.lengths == "self" or self._needs_equal_lengths(T, S, limits):
            S = T = max(T, domain.min_keys)
        return replace(sizes, T=T, S=S,
                       B=min(sizes.B, MOST_PIECES["B"]) if "B" in self.cut_axes else sizes.B)

    def _is_step(self, limits: Limits) -> bool:
        """Whether the subject takes only as many new keys as queries here: there are then fewer
        queries than keys.
        """
        return limits.is_behind_past(self.domain.always)

    def _always_needs_equal_lengths(self, limits: Limits) -> bool:
        """Whether clause and subject together leave only as many queries as keys."""
        return self.domain.lengths == "self" or self._needs_equal_lengths(1, 2, limits)

    def _needs_equal_lengths(self, T: int, S: int, limits: Limits) -> bool:
        """Whether the subject takes such lengths only where they are equal."""
        if self._is_step(limits):
            return False
        if limits.self_attention_only or self.domain.inputs == "one":
            return True
        return not limits.takes_lengths(T, S, causal="causal" in self.domain.always)

    def _widen_values(self, sizes: Sizes, limits: Limits) -> Sizes:
        """Values wide enough for the weights to be read in few calls."""
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
        """Of a layer, no more key/value heads than its projections may be wide."""
        if not self.projects or _projected_width(sizes) <= MOST_FEATURES:
            return sizes
        group = sizes.H // sizes.Hkv
        kv_heads = max(1, self.domain.min_heads // group,
                       MOST_FEATURES // (group * max(sizes.D, sizes.Dv)))
        return replace(sizes, Hkv=kv_heads, H=kv_heads * group)

    def _limit_stored_work(self, sizes: Sizes) -> Sizes:
        """Fewer entries, key/value heads and heads of a group, in this order, where the call
        before it that stores all keys at once would have too many scores.
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
        """Of a call of a decoder that stores the keys; of others 0."""
        is_stepped = STATE in self.domain.always or STATE in self.domain.sometimes
        return sizes.B * sizes.H * sizes.S * sizes.S if is_stepped else 0

    def fit_within_cap(self, sizes: Sizes, limits: Limits, cap: float) -> Sizes | None:
        """These sizes, fitted, and halved along one axis after the other until they cost no more
        than `cap`.
        """
        for _ in range(_MOST_HALVINGS):
            fitted = self.fit_sizes(sizes, limits)
            if fitted is not None and self.work(fitted) <= cap:
                return fitted
            if fitted is None and not limits.all_refusals:
                return None
            sizes = halve_costliest(sizes, fitted or sizes)
        return None

    def takes_sizes(self, sizes: Sizes, limits: Limits) -> bool:
        """Whether clause and subject take a problem of these sizes as it is, and it is small
        enough to be drawn.
        """
        is_drawn = _is_drawn(sizes) and self._most_scores(sizes) <= MOST_ENTRIES
        return (is_drawn and max(sizes.T, sizes.S) <= MOST_TOKENS_THOROUGH
                and self.suits(sizes, limits))

    def suits(self, sizes: Sizes, limits: Limits) -> bool:
        """Whether clause and subject take a problem of these sizes as it is, whatever it costs."""
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
        return (self.domain.min_queries <= T and self.domain.min_keys <= S
                and {"any": True, "self": T == S, "cross": T != S, "more_queries": T > S,
                     "more_keys": T < S}[self.domain.lengths]
                and not (T != S and self._needs_equal_lengths(T, S, limits))
                and (self._is_step(limits)
                     or limits.takes_lengths(T, S, causal="causal" in self.domain.always)))

    def _heads_fit(self, sizes: Sizes, limits: Limits) -> bool:
        if self.domain.min_heads > sizes.H or (limits.single_head and sizes.H > 1):
            return False
        is_grouped = sizes.Hkv < sizes.H
        if self.domain.grouped == "always":
            return is_grouped and not _refuses_groups(limits)
        taken = (self.grouping(limits) == "maybe" and limits.grouped is True
                 and not _refuses_groups(limits))
        return not is_grouped or taken


def _projected_width(sizes: Sizes) -> int:
    """The width of the model of a layer with these heads."""
    return sizes.H * max(sizes.D, sizes.Dv)


def _is_drawn(sizes: Sizes) -> bool:
    """Whether a problem of these sizes is small enough to be drawn: no array of it takes much
    memory.
    """
    heads = sizes.B * sizes.H
    return (max(heads * sizes.T * sizes.S,
                2 * heads * (sizes.T + sizes.S) * max(sizes.D, sizes.Dv)) <= MOST_ENTRIES)


def _refuses_groups(limits: Limits) -> bool:
    return limits.grouped is False or limits.single_head
