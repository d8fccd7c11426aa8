"""Makes the arrays of keywords whose values are named by a pattern, each from a random stream of
its own.

Here, too, problems are split into a past and new keys, and a cache is filled to its last place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.forms import CACHE
from attnspec.core.keyword import (
    GRAD,
    Acts,
    GradPattern,
    LengthPattern,
    PagePattern,
    PastPattern,
    SegmentPattern,
    SinkPattern,
    SlopePattern,
)
from attnspec.core.keywords import AXES, BESIDE, CACHED, COUNTS, KEYWORDS, OFF, acting_on, load_parts
from attnspec.core.nouns import DType
from attnspec.problems.families import Words, normal_numbers, random_words, uniform_numbers, whole_numbers
from attnspec.problems.problem import CACHED_INPUTS, Array, Problem, Sizes, join_past, numpy_dtype


def _lengths_with_zero(random: Words, most: int) -> Array:
    """(B,): ragged lengths, every second one 0; chance decides about the first. One alone is 0."""
    first_zero = random[0] >> np.uint32(31) if len(random) > 1 else 0
    is_zero = np.arange(len(random)) % 2 == first_zero
    return np.where(is_zero, 0, _LENGTH_MAKERS["ragged"](random, most))


def _lengths_first_full(random: Words, most: int) -> Array:
    """(B,): the first entry has all; the others are ragged."""
    return np.where(np.arange(len(random)) == 0, most, _LENGTH_MAKERS["ragged"](random, most))


_LENGTH_MAKERS: Mapping[LengthPattern, Callable[[Words, int], Array]] = {
    "ragged": lambda random, most: 1 + random % np.uint32(most),
    "one_short": lambda random, most: np.full(len(random), max(1, most - 1)),
    "full": lambda random, most: np.full(len(random), most),
    "first_full": _lengths_first_full,
    "shortest": lambda random, most: np.ones(len(random)),  # noqa: ARG005  (a pattern's signature)
    "with_zero": _lengths_with_zero,
}


def make_lengths(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """(B,) int32: how many keys, or queries, each batch entry has."""
    most, random = getattr(sizes, COUNTS[keyword]), random_words(seed, keyword, (sizes.B,))
    lengths = _LENGTH_MAKERS[pattern](random, most)  # type: ignore[index]  # read by name
    return lengths.astype(np.int32)


def _rising_sinks(random: Words) -> Array:
    """(H,): from -20 to 20; a single head's is 2."""
    return np.linspace(-20, 20, len(random)) if len(random) > 1 else np.full(1, 2.0)


_SINK_MAKERS: Mapping[SinkPattern, Callable[[Words], Array]] = {
    "spread": lambda random: whole_numbers(random, -32, 32) / 8,
    "normal": normal_numbers,
    "zero": lambda random: np.zeros(len(random)),
    "rising": _rising_sinks,
    "hundred": lambda random: np.full(len(random), 100.0),
    "minus_infinity": lambda random: np.full(len(random), -np.inf),
}


def make_sinks(pattern: str, seed: int, sizes: Sizes, dtype: DType) -> Array:
    """(H,) in float32, or float64 beside float64; the numbers are the same."""
    sinks = _SINK_MAKERS[pattern](random_words(seed, "sinks", (sizes.H,)))  # type: ignore[index]  # read by name
    return sinks.astype(np.float32).astype(DTYPES[dtype].wide.value, copy=False)


def _draw_eighths(random: Words) -> Array:
    """Random slopes between 1/8 and 4, of any shape: that of the words."""
    return whole_numbers(random, 1, 32) / 8


_SLOPE_MAKERS: Mapping[SlopePattern, Callable[[int], Array]] = {
    "powers": lambda H: np.ldexp(1.0, -1 - np.arange(H) % 8),
    "geometric": lambda H: np.exp2(-8 * np.arange(1, H + 1) / H),
    "steep": lambda H: 1.0 + np.arange(H) % 4,
    "zero": np.zeros,
}


def make_slopes(pattern: str, seed: int, sizes: Sizes, dtype: DType) -> Array:
    """(H,), or (B,H) by `of_entries`, in float32, or float64 beside float64."""
    if pattern == "of_entries":
        slopes = _draw_eighths(random_words(seed, "alibi_slopes", (sizes.B, sizes.H)))
    else:
        slopes = _SLOPE_MAKERS[pattern](sizes.H)  # type: ignore[index]  # read by name
    return slopes.astype(np.float32).astype(DTYPES[dtype].wide.value, copy=False)


def _consecutive_segments(segments: int, seed: int, label: str, shape: tuple[int, int]) -> Array:
    """(B,T), or (B,S): so many segments in a row, with random borders in each batch entry."""
    B, length = shape
    # ranks of random numbers: borders are different from each other, and none is 0
    ranks = np.argsort(random_words(seed, label, (B, length - 1)), axis=1, kind="stable")
    borders = 1 + ranks[:, :segments - 1]
    return np.asarray((np.arange(length) >= borders[:, :, None]).sum(axis=1))


def _make_segments(pattern: str, segments: int, seed: int, label: str,
                   shape: tuple[int, int]) -> Array:
    """So many segments: (B,T), or (T,) for all batch entries; or of keys."""
    places = np.arange(shape[1])
    if pattern == "by_turns":
        # float32 cannot tell the first two apart, nor 8 bits the first and the third
        return np.array([2**24, 2**24 + 1, 2**24 + 256])[places % segments]
    if pattern == "alike":
        return places * segments // shape[1]
    return _consecutive_segments(segments, seed, label, shape)


_MOST_SEGMENTS: Mapping[SegmentPattern, int] = {"ragged": 4, "padded": 4, "by_turns": 3, "one": 1}
"""Upper limit of the segments where it is not two; there are never more than queries or keys."""


def make_segments(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """(B,T) int32 of queries, (B,S) of keys; equal if T = S, except under `keys_apart`."""
    of_keys = AXES[keyword][-1] == "S"
    shape = sizes.B, sizes.S if of_keys else sizes.T
    count = min(_MOST_SEGMENTS.get(pattern, 2), sizes.T, sizes.S)  # type: ignore[call-overload]  # read by name
    # one stream for both, so that a row and its key are of one segment
    label = "segments" if sizes.T == sizes.S else keyword
    of_pattern = _make_segments(pattern, count, seed, label, shape)
    segments = np.array(np.broadcast_to(of_pattern, shape), np.int32)
    if pattern == "padded":
        return (segments + 1) % np.int32(count)
    if pattern == "keys_apart" and of_keys:
        segments[:, -1] = count
    return segments


def _one_entry(random: Words) -> Array:
    """(B,H,T,Dv): 1 at one entry of each head, where its first word points."""
    B, H, T, Dv = random.shape
    place = random[..., 0, 0] % np.uint32(T * Dv)
    return np.asarray(np.arange(T * Dv) == place[..., None]).reshape(B, H, T, Dv).astype(float)


def _large_first_row(random: Words, _: Words) -> Array:
    """(B,H,T,Dv): 64 in the first row, 2^-6 in the others."""
    is_first = np.arange(random.shape[2])[:, None] == 0
    return np.where(np.broadcast_to(is_first, random.shape), 64.0, 2.0**-6)


_GRADIENT_MAKERS: Mapping[GradPattern, Callable[[Words, Words], Array]] = {
    "normal": lambda random, _: normal_numbers(random),
    "of_rows": lambda random, row: normal_numbers(random) * np.ldexp(
        1.0, whole_numbers(row, -6, 6).astype(np.int32)),
    "integers": lambda random, _: whole_numbers(random, -2, 2),
    "one_row": lambda random, row: normal_numbers(random) * (
        row == row.max(axis=2, keepdims=True)),
    "of_one_sign": lambda random, _: 0.5 + uniform_numbers(random) / 2,
    "one_large": _large_first_row, "one_entry": lambda random, _: _one_entry(random),
    "ones": lambda random, _: np.ones(random.shape),
    "tiny": lambda random, _: normal_numbers(random) * 2.0**-10,
    "large": lambda random, _: normal_numbers(random) * 64.0,
    "zero": lambda random, _: np.zeros(random.shape),
}


def make_output_gradient(pattern: str, seed: int, sizes: Sizes, dtype: DType) -> Array:
    """(B,H,T,Dv) in the dtype, rounded once."""
    shape = sizes.B, sizes.H, sizes.T, sizes.Dv
    of_entries = random_words(seed, GRAD, shape)
    of_rows = random_words(seed, f"{GRAD} of rows", (*shape[:3], 1))
    gradient = np.asarray(_GRADIENT_MAKERS[pattern](of_entries, of_rows))  # type: ignore[index]  # read by name
    return gradient.astype(DTYPES[dtype].wide.value).astype(numpy_dtype(dtype))


_FLOAT_ARRAY_MAKERS: Mapping[str, Callable[[str, int, Sizes, DType], Array]] = {
    "sinks": make_sinks, "alibi_slopes": make_slopes, GRAD: make_output_gradient}


def keyword_array(keyword: str, pattern: str, seed: int, sizes: Sizes,
                  dtype: DType = DType.FLOAT32) -> Array:
    """The array of a keyword by the name of its pattern.

    Lengths (B,), sinks (H,), slopes (H,) or (B,H), segments (B,T) or (B,S), the output's gradient
    (B,H,T,Dv).
    """
    if keyword in COUNTS:
        return make_lengths(keyword, pattern, seed, sizes)
    if AXES[keyword] in {"BT", "BS"}:
        return make_segments(keyword, pattern, seed, sizes)
    for part in load_parts("arrays"):
        if keyword in part.ARRAYS:
            return np.asarray(part.ARRAYS[keyword](pattern, seed, sizes, dtype))
    return _FLOAT_ARRAY_MAKERS[keyword](pattern, seed, sizes, dtype)


NEUTRAL_PATTERNS: Mapping[str, str] = {
    **dict.fromkeys(COUNTS, "full"), "sinks": "minus_infinity", "alibi_slopes": "zero",
    "query_segments": "one", "key_segments": "one", GRAD: "zero",
    **{name: pattern for part in load_parts("keyword")
       for name, pattern in getattr(part, "NEUTRAL", {}).items()}}
"""By keyword with an array, the pattern that changes no answer."""


def sample_array(keyword: str, sizes: Sizes, dtype: DType) -> Array:
    """The array of a keyword that `attnspec init` tries first.

    Lengths (B,), sinks and slopes (H,), segments (B,T) or (B,S).
    """
    sample = KEYWORDS[keyword].sample or KEYWORDS[BESIDE[keyword]].sample
    return keyword_array(keyword, str(sample), 1, sizes, dtype)


_PAST_COUNTS: Mapping[PastPattern, Callable[[int, int], int]] = {
    "new_as_queries": lambda T, S: S - T if S > T else S // 2, "half": lambda _, S: S // 2,
    "one_new": lambda _, S: S - 1, "one_past": lambda _, S: min(1, S - 1), "none": lambda *_: 0,
}


def count_past(pattern: str, sizes: Sizes) -> int:
    """How many of the keys are past, by the name of a pattern."""
    return _PAST_COUNTS[pattern](sizes.T, sizes.S)  # type: ignore[index]  # read by name


def split_past(problem: Problem, past: int) -> Problem:
    """The problem with its first keys and values handed over as past ones."""
    whole, parts = join_past(problem), dict[str, Array]()
    for name, past_name in zip(CACHED_INPUTS, CACHED, strict=True):
        array = getattr(whole, name)
        parts[past_name] = np.ascontiguousarray(array[:, :, :past])
        parts[name] = np.ascontiguousarray(array[:, :, past:])
    return whole.but(**parts)


def split_past_alike(problem: Problem, whole: Problem) -> Problem:
    """The problem `whole`, with as many past keys as another problem."""
    return split_past(whole, problem.past) if problem.has_past else whole


USUAL_PAGES: PagePattern = "shuffled"
"""How keys and values lie by default for a subject that takes nothing but pages."""

_FULL_PAGE_SLOTS = (4, 3, 2, 1)
"""Slots of a page where all slots must hold keys: the first that divides their number."""

_SLOT_COUNTS: Mapping[PagePattern, int] = {
    "one_slot": 1, "beyond_16_bits": 1, "shared": 2, "odd": 3, "pages_of_16": 16,
    "pages_of_32": 32, "pages_of_64": 64, "pages_of_128": 128, "pages_of_256": 256}
"""By pattern, the slots of a page, where they are not four and do not depend on the keys."""


def slots_of_page(pattern: PagePattern, keys: int, multiple: int = 1) -> int:
    """How many slots a page of a pattern has for so many keys; a multiple of `multiple`."""
    slots = _SLOT_COUNTS.get(pattern, 4)
    if pattern == "one_page":
        slots = max(1, keys)
    elif pattern in {"large_beyond", "nan_beyond"}:
        slots = next(count for count in _FULL_PAGE_SLOTS if keys % count == 0)
    return -(-slots // multiple) * multiple


def cut_meanings(problem: Problem, *, queries: slice | Array = slice(None),
               keys: slice = slice(None)) -> dict[str, Array]:
    """The keywords, of any shape, that give entries meaning, cut to these queries and keys."""
    spans: dict[str, slice | Array] = {"T": queries, "S": keys}
    meanings = {}
    for name, array in problem.given.items():
        if KEYWORDS[name].acts is Acts.ENTRIES:
            index = tuple(spans.get(axis, slice(None)) for axis in AXES[name])
            meanings[name] = np.ascontiguousarray(array[index])
    return meanings


def replace_values(problem: Problem, value: Array) -> Problem:
    """The problem with other values (B,Hkv,S,Dv), past ones first, which stand for themselves."""
    plain = {name: np.broadcast_to(np.full((), KEYWORDS[name].identity, array.dtype), value.shape)
             for name, array in problem.given.items() if KEYWORDS[name].meaning_of == "value"}
    return split_past_alike(problem, join_past(problem).but(value=value, **plain))


def fill_cache(problem: Problem, keys: int) -> Problem:
    """A problem with the last query and so many keys, all but the last of which are past.

    The problem's keys come again and again. Keywords with rows or columns, and those that hide
    keys, are left out, except the causal flag.
    """
    whole = join_past(problem)
    # the last key stays the last: the one query stands at its place
    order = np.append(np.arange(keys - 1) % whole.sizes.S, whole.sizes.S - 1)
    hiding = {name: off for name, off in acting_on(Acts.VISIBILITY).items() if off is not False}
    # what has rows or columns would need as many as there are keys now
    columns = {name: OFF[name] for name, axes in AXES.items()
               if set(axes) & set("TS") and name in OFF}
    inputs = {name: getattr(whole, name)[:, :, order] for name in CACHED_INPUTS}
    inputs["query"] = np.ascontiguousarray(whole.query[:, :, -1:])
    return split_past(whole.but(**{**columns, **hiding, CACHE: None, **inputs}), keys - 1)


def last_keys(problem: Problem, keys: int) -> Problem:
    """A problem with the last keys of a filled cache alone, all of which its one query sees."""
    whole = join_past(problem)
    inputs = {name: np.ascontiguousarray(getattr(whole, name)[:, :, -keys:])
              for name in CACHED_INPUTS}
    return whole.but(causal=False, **inputs)
