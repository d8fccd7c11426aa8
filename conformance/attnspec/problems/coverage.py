"""What sizes and keywords a run has met, in pairs: two axes each in a bucket of its own, or a keyword and an axis.

A set of pairs is a whole number with a bit for each, so that sets add up by `|`; a record holds its text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations

from attnspec.core.declaration import Limits
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import Effort
from attnspec.problems.axes import BUCKETED, axes, lengths_of
from attnspec.problems.demand import Demand
from attnspec.problems.domain import domain
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import MOST, all_pairs, sizes_of

COUNTED = tuple(name for name in OFF if KEYWORDS[name].acts in {Acts.VISIBILITY, Acts.LOGITS})
"""The keywords that are met together with lengths."""

_ANY = Demand(domain(grouped="maybe"))

Place = tuple[str, int]
"""An axis and one of its buckets."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An axis in a bucket, beside another axis in a bucket, or beside a keyword that is in use."""

    place: Place
    other: Place | str


@cache
def every_pair() -> tuple[Pair, ...]:
    """All of them, in the order of their bits."""
    of_axes = (Pair((one, this), (other, that)) for one, this, other, that in all_pairs())
    places = [(name, bucket) for name in BUCKETED for bucket in range(len(axes()[name].buckets))]
    return (*of_axes, *(Pair(place, keyword) for keyword in COUNTED for place in places))


@cache
def _bits() -> Mapping[Pair, int]:
    return {pair: 1 << index for index, pair in enumerate(every_pair())}


def met_by(sizes: Sizes, keywords: Iterable[str]) -> int:
    """The pairs that a case of these sizes with these keywords meets."""
    bits, used = _bits(), [name for name in keywords if name in COUNTED]
    places = [(name, axes()[name].bucket(length)) for name, length in lengths_of(sizes).items()]
    met = [Pair(one, other) for one, other in combinations(places, 2)]
    return sum(bits.get(pair, 0) for pair in (*met, *(Pair(place, name) for name in used for place in places)))


@lru_cache(maxsize=64)
def taken_by(limits: Limits, keywords: frozenset[str]) -> int:
    """The pairs that a subject with these limits and keywords can be put at effort default."""
    return sum(bit for pair, bit in _bits().items()
               if (not isinstance(pair.other, str) or pair.other in keywords) and _is_taken(pair, limits))


def _is_taken(pair: Pair, limits: Limits) -> bool:
    """Whether a problem of the shortest lengths that meet a pair, or of the longest, is taken and cheap enough."""
    places = [place for place in (pair.place, pair.other) if not isinstance(place, str)]
    corners = ({name: axes()[name].bounds(bucket)[end] for name, bucket in places} for end in (0, 1))
    fitted = (_ANY.fitted(sizes_of({**dict.fromkeys(BUCKETED, 1), **corner}), limits) for corner in corners)
    return any(sizes is not None and _ANY.work(sizes) <= MOST[Effort.DEFAULT] and _lies_in(sizes, places)
               for sizes in fitted)


def _lies_in(sizes: Sizes, places: Iterable[Place]) -> bool:
    lengths = lengths_of(sizes)
    return all(axes()[name].bucket(lengths[name]) == bucket for name, bucket in places)


def pairs_in(bits: int) -> Iterator[Pair]:
    """The pairs of a set."""
    return (pair for pair, bit in _bits().items() if bits & bit)


def written(bits: int) -> str:
    """A set of pairs as text; empty for none."""
    return base64.b85encode(bits.to_bytes(-(-bits.bit_length() // 8), "little")).decode()


def read(text: str) -> int:
    """The set that a text stands for. Raises ValueError for any other text."""
    return int.from_bytes(base64.b85decode(text), "little")
