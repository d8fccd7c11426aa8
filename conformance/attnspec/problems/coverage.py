"""The pairs of sizes and keywords that a subject can be put at all."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product

from attnspec.core.coverage import AXES, AxisBucket, BucketPair, bits, bounds, bucket_of
from attnspec.core.declaration import Limits
from attnspec.core.nouns import Effort
from attnspec.problems.axes import lengths_of
from attnspec.problems.demand import Demand
from attnspec.problems.domain import domain
from attnspec.problems.fitting import partners_of
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import MOST, sizes_of

_ANY = Demand(domain(grouped="maybe"))


@lru_cache(maxsize=64)
def taken_by(limits: Limits, keywords: frozenset[str]) -> int:
    """The set of pairs that a subject with these limits and keywords can be put at effort default."""
    return sum(bit for pair, bit in bits().items()
               if (not isinstance(pair.other, str) or pair.other in keywords) and _is_taken(pair, limits))


def _is_taken(pair: BucketPair, limits: Limits) -> bool:
    """Whether a problem of the shortest or longest lengths that meet a pair is taken and cheap enough."""
    partners = partners_of(limits)
    spans = [(axis, _taken_of(axis, bounds(axis, bucket), limits, partners.get(axis, "")))
             for axis, bucket in pair.places]
    corners = ({axis: span[end] for (axis, span), end in zip(spans, ends, strict=True)}
               for ends in product((0, 1), repeat=len(spans)))
    fitted = (_ANY.fitted(sizes_of({**dict.fromkeys(AXES, 1), **corner}), limits) for corner in corners)
    return any(sizes is not None and _ANY.work(sizes) <= MOST[Effort.DEFAULT] and _lies_in(sizes, pair.places)
               for sizes in fitted)


def _taken_of(axis: str, span: tuple[int, int], limits: Limits, partner: str) -> tuple[int, int]:
    """The span from its first length on that is taken along this axis."""
    least, most = span
    return limits.nearest(axis, least, partner=partner, least=least), most


def _lies_in(sizes: Sizes, places: Iterable[AxisBucket]) -> bool:
    lengths = lengths_of(sizes)
    return all(bucket_of(axis, lengths[axis]) == bucket for axis, bucket in places)
