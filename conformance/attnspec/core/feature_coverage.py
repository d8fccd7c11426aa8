"""Which features have met in threes: keywords, and the traits of sizes on which mistakes depend.

As with pairs of sizes (`core/coverage.py`), a set of triples is a whole number with a bit for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from itertools import combinations

from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, KEYWORDS, OFF

SEVERAL_ENTRIES, GROUPS, SEVERAL_GROUPS, SINGLE_QUERY = "B > 1", "grouped heads", "Hkv > 1", "T = 1"
OTHER_LENGTH, OTHER_WIDTH, MANY_QUERIES, MANY_KEYS = "T ≠ S", "D ≠ Dv", "T > 64", "S > 64"
LONG_PAST, EMPTY_ROWS = "a past of more than 32 keys", "rows without a key"
GROUPS_OF_SEVERAL = "1 < Hkv < H"

TRAITS = (SEVERAL_ENTRIES, GROUPS, SEVERAL_GROUPS, SINGLE_QUERY, OTHER_LENGTH, OTHER_WIDTH, MANY_QUERIES, MANY_KEYS,
          LONG_PAST, EMPTY_ROWS, GROUPS_OF_SEVERAL)
"""The features that are no keywords. 64 and 32 are blocks that many kernels work in.

Several groups of several heads are one feature more: with one group, or one head in each, no mix-up of them shows.
"""

BLOCK, PAST = 64, 32

COUNTED = tuple(name for name in OFF if KEYWORDS[name].acts in {Acts.VISIBILITY, Acts.LOGITS, Acts.KEYS}
                and not (name in BESIDE and BESIDE[name] < name))
"""The keywords that are features; of two that are given together the first."""

FEATURES = (*COUNTED, *TRAITS)

_EXCLUDED = tuple(frozenset({SINGLE_QUERY, other}) for other in (MANY_QUERIES, "query_lengths", "key_segments"))
"""Features that act together in no problem: a single query is in one segment, and an entry that lacks it has none."""

_NEEDED: Mapping[str, str] = {LONG_PAST: "past_key", EMPTY_ROWS: "mask"}
"""By trait, the keyword without which no problem has it."""


def features_at(lengths: Mapping[str, int], keywords: Collection[str], past: int, *,
                has_empty_rows: bool) -> frozenset[str]:
    """The features of a problem with these lengths of all axes, these keywords, and so many keys in its past."""
    H, Hkv, T, S = (lengths[axis] for axis in ("H", "Hkv", "T", "S"))
    traits = {
        SEVERAL_ENTRIES: lengths["B"] > 1, GROUPS: Hkv < H, SEVERAL_GROUPS: Hkv > 1, SINGLE_QUERY: T == 1,
        OTHER_LENGTH: T != S, OTHER_WIDTH: lengths["D"] != lengths["Dv"], MANY_QUERIES: T > BLOCK,
        MANY_KEYS: S > BLOCK, LONG_PAST: past > PAST, EMPTY_ROWS: has_empty_rows,
        GROUPS_OF_SEVERAL: 1 < Hkv < H}
    return frozenset({*(name for name in COUNTED if name in keywords), *(name for name, has in traits.items() if has)})


@cache
def _bits() -> Mapping[frozenset[str], int]:
    return {frozenset(triple): 1 << index for index, triple in enumerate(combinations(FEATURES, 3))}


@cache
def _with_each() -> Mapping[str, int]:
    """By feature, the set of all triples that have it."""
    return {feature: sum(bit for triple, bit in _bits().items() if feature in triple) for feature in FEATURES}


@lru_cache(maxsize=4096)
def triples_of(features: frozenset[str]) -> int:
    """The set of the triples that a problem with these features meets."""
    found = (1 << len(_bits())) - 1
    for feature, having in _with_each().items():
        found &= -1 if feature in features else ~having
    return found


@lru_cache(maxsize=64)
def triples_taken(keywords: frozenset[str], traits: frozenset[str]) -> int:
    """The set of the triples that can meet at a subject with these keywords, if problems can have these traits."""
    possible = frozenset({*(name for name in COUNTED if name in keywords),
                          *(name for name in traits if _NEEDED.get(name, "") in {"", *keywords})})
    return sum(bit for triple, bit in _bits().items()
               if triple <= possible and not any(pair <= triple for pair in _EXCLUDED))


def triples_in(found: int) -> Iterator[frozenset[str]]:
    """The triples of a set."""
    return (triple for triple, bit in _bits().items() if found & bit)


def triple_behind(found: int, share: float) -> frozenset[str]:
    """The first triple of a set, which has one, that stands behind this share of all; the first of all if none does."""
    start = int(share * len(_bits()))
    behind = found >> start << start or found
    return _in_order()[(behind & -behind).bit_length() - 1]


@cache
def _in_order() -> tuple[frozenset[str], ...]:
    return tuple(_bits())


def describe_triple(triple: frozenset[str]) -> str:
    """A triple in words: `causal, mask and T ≠ S`."""
    one, other, third = (name for name in FEATURES if name in triple)
    return f"{one}, {other} and {third}"
