"""What sizes and keywords a run has met, in pairs: two axes each in a bucket of its own, or an axis and a keyword.

A set of pairs is a whole number with a bit for each, so that sets add up by `|`; a record holds its text.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, combinations, product

from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, OFF

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

LONGEST: Mapping[str, int] = {"B": 33, "H": 128, "G": 71, "T": 4096, "S": 4096, "D": 256, "Dv": 256}
"""The greatest length that is drawn at effort default."""

AXES = tuple(BUCKETS)
COUNTED = tuple(name for name in OFF
                if KEYWORDS[name].acts in {Acts.VISIBILITY, Acts.LOGITS} and not KEYWORDS[name].pool)
"""The keywords that are met together with lengths: those that clauses of every pool may use."""

Spans = Mapping[str, tuple[int, int]]
"""By axis, the least and the greatest length."""

AxisBucket = tuple[str, int]
"""An axis and one of its buckets."""


@dataclass(frozen=True, slots=True)
class BucketPair:
    """A pair that a case can meet: an axis in a bucket, beside another in a bucket or a keyword that is in use."""

    place: AxisBucket
    other: AxisBucket | str

    @property
    def places(self) -> tuple[AxisBucket, ...]:
        """The one or two axes of a pair, each with its bucket."""
        return (self.place,) if isinstance(self.other, str) else (self.place, self.other)


def bucket_of(axis: str, length: int) -> int:
    """The index of the bucket that a length lies in; what is longer than any lies in the last."""
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
    """All that a problem can have, H being at least G, in the order of their bits."""
    both = ((places_of(one), places_of(other)) for one, other in combinations(AXES, 2))
    of_axes = (BucketPair(this, that) for ones, others in both for this in ones for that in others)
    return (*(pair for pair in of_axes if _has_groups(pair)),
            *(BucketPair(place, keyword) for keyword in COUNTED for axis in AXES for place in places_of(axis)))


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
    return _met_in(places, frozenset([name for name in keywords if name in COUNTED]))


_Ends = tuple[AxisBucket, AxisBucket | str]


@lru_cache(maxsize=4096)
def _met_in(places: tuple[AxisBucket, ...], used: frozenset[str]) -> int:
    known = _bits_by_ends()
    both: Iterator[_Ends] = chain(combinations(places, 2), product(places, used))
    return sum(known.get(ends, 0) for ends in both)


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
    """Joins spans: for each axis, the least and the greatest length of them all."""
    joined: dict[str, tuple[int, int]] = {}
    for axis, (least, most) in (span for spans in each for span in spans.items()):
        low, high = joined.get(axis, (least, most))
        joined[axis] = min(low, least), max(high, most)
    return joined
