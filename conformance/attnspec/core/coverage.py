"""Counts what a run has met: sizes and keywords in pairs, features in threes.

A pair has two axes in buckets, or an axis and a keyword. A set of pairs, or of triples, is a whole
number with a bit for each, so that sets add up by `|`; a record holds its text.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, combinations, product

from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, KEYWORDS, OFF

BUCKETS: Mapping[str, tuple[int, ...]] = {
    "B": (1, 2, 3, 5, 10),
    "H": (1, 2, 4, 9, 17, 33),
    "G": (1, 2, 3, 5, 9),
    "T": (1, 2, 9, 17, 33, 65, 129, 257, 513, 1025, 2049),
    "S": (1, 2, 9, 17, 33, 65, 129, 257, 513, 1025, 2049),
    "D": (1, 2, 9, 17, 33, 65, 97, 129, 193),
    "Dv": (1, 2, 9, 17, 33, 65, 97, 129, 193),
}
"""By axis, the least length of each bucket: one past where blocks end. G is H/Hkv."""

LONGEST: Mapping[str, int] = {"B": 33, "H": 128, "G": 71, "T": 4096, "S": 4096, "D": 256,
                              "Dv": 256}
"""By axis, the greatest length that is drawn at effort default."""

AXES = tuple(BUCKETS)
IN_PAIRS = tuple(name for name in OFF
                if KEYWORDS[name].acts in {Acts.VISIBILITY,
                                           Acts.LOGITS} and not KEYWORDS[name].pool)
"""The keywords that are counted with lengths: those that clauses of every pool may use."""

Spans = Mapping[str, tuple[int, int]]
"""By axis, the least and the greatest length."""

AxisBucket = tuple[str, int]
"""An axis and one of its buckets."""


@dataclass(frozen=True, slots=True)
class BucketPair:
    """A pair that a case can meet: an axis in a bucket, with another one or with a keyword."""

    place: AxisBucket
    other: AxisBucket | str

    @property
    def places(self) -> tuple[AxisBucket, ...]:
        """The one or two axes of a pair, each with its bucket."""
        return (self.place,) if isinstance(self.other, str) else (self.place, self.other)


def bucket_of(axis: str, length: int) -> int:
    """The index of the bucket of a length; what is longer than any is in the last."""
    return bisect_right(BUCKETS[axis], length) - 1


def bucket_bounds(axis: str, bucket: int) -> tuple[int, int]:
    """The least and the greatest length of a bucket."""
    ends = (*BUCKETS[axis][1:], LONGEST[axis] + 1)
    return BUCKETS[axis][bucket], ends[bucket] - 1


def bucket_label(axis: str, bucket: int) -> str:
    """Names a bucket by its lengths: `64–127`; `1`."""
    least, most = bucket_bounds(axis, bucket)
    return str(least) if least == most else f"{least}–{most}"


@cache
def every_pair() -> tuple[BucketPair, ...]:
    """All pairs that a problem can have, where H is at least G, in the order of their bits."""
    pairs = [BucketPair(place, other_place) for one, other in combinations(AXES, 2)
             for place, other_place in product(places_of(one), places_of(other))]
    places = [place for axis in AXES for place in places_of(axis)]
    return (*filter(_has_groups, pairs),
            *(BucketPair(place, keyword) for keyword in IN_PAIRS for place in places))


def places_of(axis: str) -> list[AxisBucket]:
    """The buckets of an axis."""
    return [(axis, bucket) for bucket in range(len(BUCKETS[axis]))]


def _has_groups(pair: BucketPair) -> bool:
    lengths = dict(pair.places)
    if not lengths.keys() >= {"H", "G"}:
        return True
    _, most_heads = bucket_bounds("H", lengths["H"])
    least_group, _ = bucket_bounds("G", lengths["G"])
    return most_heads >= least_group


@cache
def pair_bits() -> Mapping[BucketPair, int]:
    """The bit of each pair."""
    return {pair: 1 << index for index, pair in enumerate(every_pair())}


def met_at(lengths: Mapping[str, int], keywords: Iterable[str] = ()) -> int:
    """The set of the pairs that a case with these lengths (of all axes) and keywords meets."""
    places = tuple([(axis, bucket_of(axis, lengths[axis])) for axis in AXES])
    return _met_in(places, frozenset([name for name in keywords if name in IN_PAIRS]))


_Ends = tuple[AxisBucket, AxisBucket | str]


@lru_cache(maxsize=4096)
def _met_in(places: tuple[AxisBucket, ...], keywords: frozenset[str]) -> int:
    bits = _bits_by_ends()
    pairs: Iterator[_Ends] = chain(combinations(places, 2), product(places, keywords))
    return sum(bits.get(pair, 0) for pair in pairs)


@cache
def _bits_by_ends() -> Mapping[_Ends, int]:
    return {(pair.place, pair.other): bit for pair, bit in pair_bits().items()}


def pairs_in(found: int) -> Iterator[BucketPair]:
    """The pairs of a set."""
    return (pair for pair, bit in pair_bits().items() if found & bit)


@lru_cache(maxsize=64)
def write_pairs(found: int) -> str:
    """A set of pairs as text; empty for none."""
    return base64.b85encode(found.to_bytes(-(-found.bit_length() // 8), "little")).decode()


def read_pairs(text: str) -> int:
    """The set that a text stands for. Raises ValueError for any other text."""
    return int.from_bytes(base64.b85decode(text), "little")


def joined_spans(each: Iterable[Spans]) -> dict[str, tuple[int, int]]:
    """For each axis, the least and the greatest length of all these spans."""
    whole: dict[str, tuple[int, int]] = {}
    for spans in each:
        for axis, (least, most) in spans.items():
            low, high = whole.get(axis, (least, most))
            whole[axis] = min(low, least), max(high, most)
    return whole


SEVERAL_ENTRIES, GROUPS, SEVERAL_GROUPS, SINGLE_QUERY = ("B > 1", "grouped heads", "Hkv > 1",
                                                         "T = 1")
OTHER_LENGTH, OTHER_WIDTH, MANY_QUERIES, MANY_KEYS = "T ≠ S", "D ≠ Dv", "T > 64", "S > 64"
LONG_PAST, EMPTY_ROWS = "a past of more than 32 keys", "rows without a key"
GROUPS_OF_SEVERAL = "1 < Hkv < H"

TRAITS = (SEVERAL_ENTRIES, GROUPS, SEVERAL_GROUPS, SINGLE_QUERY, OTHER_LENGTH, OTHER_WIDTH,
          MANY_QUERIES, MANY_KEYS, LONG_PAST, EMPTY_ROWS, GROUPS_OF_SEVERAL)
"""The features that are no keywords. 64 and 32 are blocks of many kernels.

Several groups of several heads are one feature more: with one group, or one head in each, no
mix-up of them shows.
"""

BLOCK, PAST = 64, 32

IN_TRIPLES = tuple(name for name in OFF if KEYWORDS[name].acts in {Acts.VISIBILITY, Acts.LOGITS, Acts.KEYS}
                   and not (name in BESIDE and BESIDE[name] < name))
"""The keywords that are features; of two that go together, the first."""

FEATURES = (*IN_TRIPLES, *TRAITS)

_EXCLUDED = tuple(frozenset({SINGLE_QUERY, other})
                  for other in (MANY_QUERIES, "query_lengths", "key_segments"))
"""Features that never act together: one query is in one segment."""

_NEEDED: Mapping[str, str] = {LONG_PAST: "past_key", EMPTY_ROWS: "mask"}
"""By trait, the keyword without which no problem has it."""


def features_at(lengths: Mapping[str, int], keywords: Collection[str], past: int, *,
                has_empty_rows: bool) -> frozenset[str]:
    """The features of a problem with these lengths, keywords, and so many past keys."""
    H, Hkv, T, S = (lengths[axis] for axis in ("H", "Hkv", "T", "S"))
    traits = {
        SEVERAL_ENTRIES: lengths["B"] > 1, GROUPS: Hkv < H, SEVERAL_GROUPS: Hkv > 1,
        SINGLE_QUERY: T == 1,
        OTHER_LENGTH: T != S, OTHER_WIDTH: lengths["D"] != lengths["Dv"], MANY_QUERIES: T > BLOCK,
        MANY_KEYS: S > BLOCK, LONG_PAST: past > PAST, EMPTY_ROWS: has_empty_rows,
        GROUPS_OF_SEVERAL: 1 < Hkv < H}
    return frozenset(keywords) & {*IN_TRIPLES} | {name for name, has in traits.items() if has}


@cache
def _bits() -> Mapping[frozenset[str], int]:
    return {frozenset(triple): 1 << index
            for index, triple in enumerate(combinations(FEATURES, 3))}


@cache
def _with_each() -> Mapping[str, int]:
    """By feature, the set of all triples with it."""
    return {feature: sum(bit for triple, bit in _bits().items() if feature in triple)
            for feature in FEATURES}


@lru_cache(maxsize=4096)
def triples_of(features: frozenset[str]) -> int:
    """The set of the triples that a problem with these features meets."""
    triples = (1 << len(_bits())) - 1
    for feature, having in _with_each().items():
        if feature not in features:
            triples &= ~having
    return triples


@lru_cache(maxsize=64)
def triples_taken(keywords: frozenset[str], traits: frozenset[str]) -> int:
    """The set of the triples that a subject with these keywords and traits can meet."""
    possible = keywords & {*IN_TRIPLES}
    possible |= {name for name in traits if _NEEDED.get(name, "") in {"", *keywords}}
    return sum(bit for triple, bit in _bits().items()
               if triple <= possible and not any(pair <= triple for pair in _EXCLUDED))


def triples_in(found: int) -> Iterator[frozenset[str]]:
    """The triples of a set."""
    return (triple for triple, bit in _bits().items() if found & bit)


def triple_behind(triples: int, share: float) -> frozenset[str]:
    """The first triple of a nonempty set after this share of all triples, or the first of all."""
    start = int(share * len(_bits()))
    later = triples >> start << start or triples
    return _in_order()[(later & -later).bit_length() - 1]


@cache
def _in_order() -> tuple[frozenset[str], ...]:
    return tuple(_bits())


def describe_triple(triple: frozenset[str]) -> str:
    """A triple in words: `causal, mask and T ≠ S`."""
    one, other, third = (name for name in FEATURES if name in triple)
    return f"{one}, {other} and {third}"
