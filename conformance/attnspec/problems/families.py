"""Makes the entries of a problem. Each family fills a key/value head and the query heads it
serves.

A family turns random words into float64 entries, for n heads at once. `generic` families have
random mantissas and no structure: the bound for independent roundings holds on them.

Random words are the same on every machine, and entries are made of them by operations that IEEE
754 rounds in one way only.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType
from attnspec.problems.domain import FamilyName

Words = NDArray[np.uint32]


_RAW, _HALF = np.dtype("<u8"), np.dtype("<u4")


# Setting the state of a standing generator takes 4 µs, making one 15 µs. One a thread, since it is changed in place.
_local = threading.local()


def random_words(seed: int, label: str, shape: tuple[int, ...]) -> Words:
    """Uniform random 32-bit integers of this shape: a prefix of the stream of (seed, label)."""
    if not hasattr(_local, "generator"):
        _local.generator = np.random.PCG64(0)
    generator: np.random.PCG64 = _local.generator
    digest = hashlib.blake2b(f"{seed}:{label}".encode(), digest_size=32).digest()
    start, increment = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
    # the increment of a linear congruential generator must be odd
    # PCG64's raw output is fixed by its definition, as NumPy's distributions are not
    generator.state = {"bit_generator": "PCG64", "state": {"state": start, "inc": increment | 1},
                       "has_uint32": 0, "uinteger": 0}
    count = math.prod(shape)
    raw = generator.random_raw((count + 1) // 2)
    # low half first, also on a big-endian machine
    return raw.astype(_RAW, copy=False).view(_HALF)[:count].reshape(shape)


Floats = NDArray[np.floating[Any]]

# of the table of normal quantiles, picked by the upper 12 bits of a word
_QUANTILE_CELLS = 4096
_CELL_STEP = 2.0**-20     # the lower 20 bits place the entry inside its cell
_ENTRIES_AT_ONCE = 16384  # they stay in the cache: 4.4 ms became 1.6 ms at 262,144 entries


def uniform_numbers(words: Words) -> Floats:
    """Uniform numbers in [0, 1), in the shape of the words."""
    return words * 2.0**-32


def whole_numbers(words: Words, low: int, high: int) -> Floats:
    """Whole numbers low … high, at most 65,536 of them, in the shape of the words."""
    # a product and a shift in the place of a division (Lemire)
    return ((words >> np.uint32(16)) * np.uint32(high - low + 1) >> np.uint32(16)) + float(low)


def random_signs(words: Words) -> Floats:
    """Random signs, +1 or -1, in the shape of the words."""
    return 1.0 - 2.0 * (words & np.uint32(1))


def next_words(words: Words) -> Words:
    """Other words made from these, of the same shape, where one entry needs two."""
    # 2^32 over the golden ratio, an odd number: no two words become one
    return (words ^ (words >> np.uint32(15))) * np.uint32(2654435769)


def normal_numbers(words: Words) -> Floats:
    """N(0, 1) in the words' shape; the density is constant in each of 4,096 equally likely cells."""
    flat = np.ascontiguousarray(words).reshape(-1)
    numbers = np.empty(flat.size)
    start, slope = _quantiles()
    for first in range(0, flat.size, _ENTRIES_AT_ONCE):
        part = flat[first:first + _ENTRIES_AT_ONCE]
        entries = numbers[first:first + _ENTRIES_AT_ONCE]
        cell = (part >> np.uint32(20)).astype(np.intp)
        # no cell is out of range, and clipping takes it on trust
        slope.take(cell, out=entries, mode="clip")
        entries *= part & np.uint32(0xFFFFF)
        entries += start.take(cell, mode="clip")
    return numbers.reshape(words.shape)


@cache
def _quantiles() -> tuple[Floats, Floats]:
    """Where each cell starts, and how far one step of the lower bits goes: (cells,) each.

    The quantiles are rounded to 2^-40, which hides the last bit of the math library. The outermost
    cells, unbounded by nature, end where their second moment is that of the normal's tail.
    """
    law = NormalDist()
    exact = np.array([law.inv_cdf(cell / _QUANTILE_CELLS) for cell in range(1, _QUANTILE_CELLS)])
    inner = np.round(exact * 2.0**40) * 2.0**-40
    edge = float(inner[-1])
    second_moment = _QUANTILE_CELLS * edge * law.pdf(edge) + 1.0
    # (a² + ab + b²)/3 is the mean square of the uniform law on [a, b]
    end = round(0.5 * (-edge + (12.0 * second_moment - 3.0 * edge * edge) ** 0.5), 9)
    starts = np.concatenate([[-end], inner, [end]])
    return starts[:-1], np.diff(starts) * _CELL_STEP


def gaussian_numbers(words: Words) -> Floats:
    """N(0, 1), as exact as 32 bits allow (Box and Muller), in the shape of the words.

    It is for clauses that state a false-alarm rate, and five times slower. Numbers are rounded to
    multiples of 2^-24, so that the last bits of the math library's log and cos do not show.
    """
    # half a step above 0, whose logarithm is infinite
    radius = np.sqrt(-2.0 * np.log((words + 0.5) * 2.0**-32))
    # from the same words, turned twice: one entry needs two numbers
    angle = (2.0 * np.pi) * uniform_numbers(next_words(next_words(words)))
    return np.asarray(np.rint(radius * np.cos(angle) * 2.0**24) * 2.0**-24)


def student_t(words: Words) -> Floats:
    """Student's t with 2 degrees of freedom, of infinite variance, in the shape of the words.

    Its quantile is (2p-1)/sqrt(2p(1-p)).
    """
    # the middle of each step: neither 0 nor 1, where the quantile is infinite
    p = (words + 0.5) * 2.0**-32
    return np.asarray((2.0 * p - 1.0) / np.sqrt(2.0 * p * (1.0 - p)))


def log_normal(words: Words, octaves: float) -> Floats:
    """Numbers of either sign in the shape of the words.

    The mantissa is uniform, the exponent a rounded normal with a standard deviation of `octaves`.
    """
    entries = uniform_numbers(next_words(words))
    entries += 1.0
    entries *= _powers_of_two(octaves)[words >> np.uint32(20)]
    entries *= random_signs(words)
    return entries


@cache
def _powers_of_two(octaves: float) -> Floats:
    """(cells,): the power of two that each cell of the normal law stands for."""
    start, _ = _quantiles()
    exponents = np.rint(octaves * start - 0.5).astype(np.int32)
    return np.asarray(np.ldexp(1.0, exponents))


def one_hot(words: Words) -> Floats:
    """Rows with a single 1, at a place that the row's first word chooses; the words' shape."""
    width = words.shape[-1]
    place = whole_numbers(words[..., :1], 0, width - 1)
    return np.asarray(np.arange(width) == place, np.float64)


@dataclass(frozen=True, slots=True)
class HeadWords:
    """Random words for n heads: query (n,G,T,D) with G = H/Hkv, key (n,S,D), value (n,S,Dv).

    The dtype sets the range of the entries.
    """

    query: Words
    key: Words
    value: Words
    dtype: DType

    @property
    def width(self) -> int:
        """D."""
        return int(self.key.shape[-1])


Entries = tuple[Floats, Floats, Floats]  # query, key, value, shaped as the words


@dataclass(frozen=True, slots=True)
class EntryFamily:
    """A way to make the entries of a problem, and its purpose.

    overflows: its logits are to overflow float16.
    """

    name: FamilyName
    make: Callable[[HeadWords], Entries]
    generic: bool
    meaning: str
    overflows: bool = False


def _integer_entries(words: HeadWords) -> Entries:
    # sums of D products stay whole numbers that every dtype holds
    bound = 2 if words.key.shape[-1] <= 64 else 1
    return (whole_numbers(words.query, -bound, bound), whole_numbers(words.key, -bound, bound),
            whole_numbers(words.value, -2, 2))


def _normal_entries(words: HeadWords) -> Entries:
    return normal_numbers(words.query), normal_numbers(words.key), normal_numbers(words.value)


def _uniform_entries(words: HeadWords) -> Entries:
    return uniform_numbers(words.query), uniform_numbers(words.key), uniform_numbers(words.value)


def _student_t(words: HeadWords) -> Entries:
    return student_t(words.query), student_t(words.key), student_t(words.value)


def _constant(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    return (np.broadcast_to(query[..., :1, :], query.shape),
            np.broadcast_to(key[:, :1], key.shape), np.broadcast_to(value[:, :1], value.shape))


def _near_ties(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    # some roundings apart: their logits tie, or nearly
    return query, key[:, :1] + (8 * DTYPES[words.dtype].roundoff) * key, value


_LOGIT_PEAKS = np.array([10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0])


def _huge_logits(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    return query * _LOGIT_PEAKS[words.query[..., :1] >> np.uint32(29)], key, value


def _tiny_values(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    return query, key, value * DTYPES[words.dtype].normal


def _one_hot(words: HeadWords) -> Entries:
    return 4 * one_hot(words.query), 4 * one_hot(words.key), normal_numbers(words.value)


def _alternating_values(words: HeadWords) -> Entries:
    S, Dv = words.value.shape[1:]
    checks = 1.0 - 2.0 * ((np.arange(S)[:, None] + np.arange(Dv)) % 2)
    value = np.broadcast_to(1e4 * checks, words.value.shape)
    return normal_numbers(words.query), normal_numbers(words.key), value


def _duplicated_keys(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    n, S = key.shape[:2]
    three_words = words.key[:, :1, :1].repeat(3, axis=1) * np.array([[[1], [5], [25]]], np.uint32)
    places = whole_numbers(three_words, 0, S - 1)
    head, place = np.arange(n)[:, None], places[..., 0].astype(np.intp)
    key[head, place] = key[head, place[:, :1]]
    return query, key, value


def _log_normal(words: HeadWords) -> Entries:
    return log_normal(words.query, 1.5), log_normal(words.key, 1.5), log_normal(words.value, 3.0)


def _offset_entries(words: HeadWords) -> Entries:
    # dot products of 16·D: far from 0, where half dtypes round coarsely
    query, key, value = _normal_entries(words)
    return query + 4, key + 4, value + 4


def _tiny_query_key(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    vanishing = DTYPES[words.dtype].vanishing
    return query * vanishing, key * vanishing, value


def _one_hot_values(words: HeadWords) -> Entries:
    return normal_numbers(words.query), normal_numbers(words.key), one_hot(words.value)


_VALUE_DECADES = np.array([1e-3, 1e-2, 0.1, 1.0, 1.0, 10.0, 100.0, 1e3])


def _mixed_magnitudes(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    return query, key, value * _VALUE_DECADES[words.value[..., :1] & np.uint32(7)]


def _extreme(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    extreme = DTYPES[words.dtype].extreme
    is_large = words.value[:, :1, :1] & np.uint32(1)
    return query * extreme, key / extreme, value * np.where(is_large, extreme, 1 / extreme)


def _shift_logits(words: HeadWords, logit: float) -> Entries:
    """Normal entries whose first coordinate adds this much to every scaled logit."""
    query, key, value = _normal_entries(words)
    # q·k / sqrt(D) is the logit
    share = float(np.sqrt(abs(logit) * np.sqrt(words.width)))
    query[..., 0], key[..., 0] = share, np.copysign(share, logit)
    return query, key, value


def _cancellation(words: HeadWords) -> Entries:
    query, key, value = _normal_entries(words)
    # of each pair, one product is the other's negative
    pairs = words.width // 2 * 2
    big_query, big_key = query[..., :pairs:2] * 32, key[..., :pairs:2] * 32
    query[..., :pairs:2] += big_query
    query[..., 1:pairs:2] += big_query
    key[..., :pairs:2] += big_key
    key[..., 1:pairs:2] -= big_key
    return query / 32, key, value


def _signed_zeros(words: HeadWords) -> Entries:
    # 0 times -1 is -0
    query, key, value = (whole_numbers(array, -1, 1) * random_signs(array)
                         for array in (words.query, words.key, words.value))
    return query, key, value


def _gaussian(words: HeadWords) -> Entries:
    return gaussian_numbers(words.query), gaussian_numbers(words.key), normal_numbers(words.value)


def _spread_logits(words: HeadWords) -> Entries:
    # logits of N(0, 4): weights spread over a few keys, which a drift of the scale moves most
    return 2 * normal_numbers(words.query), normal_numbers(words.key), normal_numbers(words.value)


def _first_coordinate(words: HeadWords, query: float, key: Floats) -> tuple[Floats, Floats]:
    """Rows of zeros but for their first entry: `query` in each query, key (S,) in the keys."""
    queries, keys = np.zeros(words.query.shape), np.zeros(words.key.shape)
    queries[..., 0], keys[..., 0] = query, key
    return queries, keys


def _cycled_one_hot(words: HeadWords) -> Floats:
    S, Dv = words.value.shape[1:]
    # each key's value is a unit vector, so that the output is sums of weights
    rows: Floats = np.asarray(np.arange(S)[:, None] % Dv == np.arange(Dv), np.float64)
    return np.broadcast_to(rows, words.value.shape)


def _scale_ladder(words: HeadWords) -> Entries:
    S, D = words.key.shape[1:]
    lowest = DTYPES[words.dtype].exponential_span * np.sqrt(D) / 16
    # whole numbers of 1/64, so that products with 16 are exact
    rungs = -np.rint(lowest * 64 * np.arange(S) / max(S - 1, 1)) / 64
    return *_first_coordinate(words, 16.0, rungs), _cycled_one_hot(words)


# Weights are faint that no half dtype and no short cut keeps: e^-18 and less, down to e^-24.
_FAINT_EXPONENT, _FAINTEST_EXPONENT = 18.0, 24.0


def _faint_weights(words: HeadWords) -> Entries:
    S, D = words.key.shape[1:]
    # the query is 16 and steps are whole numbers of 1/64, so that dot products are exact
    steps = np.rint(_FAINTEST_EXPONENT * np.sqrt(D) * 4 * np.arange(S) / max(S - 1, 1)) / 64
    is_faint = 16 * steps > _FAINT_EXPONENT * np.sqrt(D)
    value = 2.0**13 * (1 + uniform_numbers(words.value)) * is_faint[:, None]
    return *_first_coordinate(words, 16.0, -steps), value


def attacked_keys(S: int) -> int:
    """How many leading keys the mask-constant attack leaves visible; the others have logit 0."""
    return (S + 1) // 2


def _attack_entries(words: HeadWords, depth: float) -> Entries:
    S, D = words.key.shape[1:]
    # five sixths of what a dot product may be leave room for the roundings of its terms
    raw = min(depth * np.sqrt(D), 5 * DTYPES[words.dtype].entry_limit / 6)
    # a power of two, near the root: query and key then are of one size, and their product is exact
    share = 2.0 ** (np.frexp(raw)[1] // 2)
    is_visible = np.arange(S) < attacked_keys(S)
    value = normal_numbers(words.value) + np.where(is_visible, 0.0, 100.0)[:, None]
    return *_first_coordinate(words, share, np.where(is_visible, -raw / share, 0.0)), value


def _zero_query(words: HeadWords) -> Entries:
    return np.zeros(words.query.shape), normal_numbers(words.key), _cycled_one_hot(words)


# self_attention_note, matrix (1): 中和 and 永和路 share their weight evenly, 有 and 一個 keep to themselves
WORKED_TOKENS = ("中和", "有", "一個", "永和路")
WORKED_WEIGHTS = ((0.5, 0.0, 0.0, 0.5), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0),
                  (0.5, 0.0, 0.0, 0.5))
_WORKED_DIRECTIONS = np.array([0, 1, 2, 0])


def _worked_example(words: HeadWords) -> Entries:
    def rows(count: int) -> Floats:
        # 64² / sqrt(D) apart: the softmax is 1/2 or 0 in every dtype
        return np.asarray(64.0
                          * np.eye(words.width)[_WORKED_DIRECTIONS[np.arange(count) % 4]
                                                % words.width])

    query, key = rows(words.query.shape[-2]), rows(words.key.shape[-2])
    return (np.broadcast_to(query, words.query.shape), np.broadcast_to(key, words.key.shape),
            whole_numbers(words.value, -8, 8))


# The largest logit, but for a factor below 2: half of it overflows float16, and float64 takes exp of its roundings.
_LOGIT_BEYOND_FLOAT16 = 2.0**17


def _beyond_float16(words: HeadWords) -> Entries:
    """Each query has one key above all others, by 2^16 and more: no rounding to float16 makes up
    for that.
    """
    S, D = words.key.shape[1:]
    share = 2.0**10
    # a power of two above sqrt(D), so that the logit is as large whatever the width
    top = _LOGIT_BEYOND_FLOAT16 / share * 2.0 ** np.ceil(np.log2(D) / 2)
    place = whole_numbers(words.key[:, :1, :1], 0, min(S, 2**16) - 1)[..., 0]
    keys, level = np.arange(S), whole_numbers(words.key[..., 0], -2, 2) / 4
    level = np.where(keys == place, 1.0, np.where(keys == (place + 1) % S, -1.0, level))
    queries, key = _first_coordinate(words, share, top * level)
    return queries * random_signs(words.query[..., :1]), key, normal_numbers(words.value)


FAMILIES: Mapping[str, EntryFamily] = {
    family.name: family
    for family in (
        EntryFamily("integers", _integer_entries, False,
                    "small whole numbers: every dot product is exact"),
        EntryFamily("normal", _normal_entries, True, "independent N(0,1)"),
        EntryFamily("uniform", _uniform_entries, True, "uniform on [0,1): nearly equal weights"),
        EntryFamily("student_t", _student_t, True,
                    "heavy tails: Student's t with 2 degrees of freedom"),
        EntryFamily("constant", _constant, False, "all rows equal: every logit of a row ties"),
        EntryFamily("near_ties", _near_ties, False, "keys that differ by a few roundings"),
        EntryFamily("huge_logits", _huge_logits, True, "scaled logits of size 10 to 2000"),
        EntryFamily("tiny_values", _tiny_values, False,
                    "values around the smallest normal number, many subnormal"),
        EntryFamily("one_hot", _one_hot, False,
                    "queries and keys with a single entry 4: logits tie in two levels"),
        EntryFamily("alternating_values", _alternating_values, False,
                    "values +1e4 and -1e4 in turn: the average cancels"),
        EntryFamily("duplicated_keys", _duplicated_keys, False,
                    "up to three keys are the same, their values differ"),
        EntryFamily("log_normal", _log_normal, True, "magnitudes over many octaves, either sign"),
        EntryFamily("offset", _offset_entries, True, "N(4,1): large logits, all positive"),
        EntryFamily("tiny_query_key", _tiny_query_key, False,
                    "dot products that vanish beside 1 or underflow"),
        EntryFamily("one_hot_values", _one_hot_values, False,
                    "values with a single 1: the output is sums of weights"),
        EntryFamily("mixed_magnitudes", _mixed_magnitudes, False, "value rows from 1e-3 to 1e3"),
        EntryFamily("extreme", _extreme, True,
                    "queries near the top of the range, keys near the bottom, values at either"),
        EntryFamily("far_below_zero", partial(_shift_logits, logit=-200.0), False,
                    "every scaled logit near -200"),
        EntryFamily("above_88", partial(_shift_logits, logit=200.0), False,
                    "every scaled logit near +200: exp overflows float32 without a shift"),
        EntryFamily("cancellation", _cancellation, False,
                    "dot products of large terms that cancel"),
        EntryFamily("signed_zeros", _signed_zeros, False, "-1, -0, +0, 1"),
        EntryFamily("gaussian", _gaussian, True,
                    "N(0,1) exact enough for a stated false-alarm rate"),
        EntryFamily("scale_ladder", _scale_ladder, False,
                    "query (16,0,…), keys (-j,0,…) in even steps down the range of exp"),
        EntryFamily("faint_weights", _faint_weights, False,
                    "values are 0 except where the weight is below 2e-8, so the output shows what "
                    "is flushed to 0 or cut off"),
        EntryFamily("mask_attack", partial(_attack_entries, depth=2e4), False,
                    "visible logits -2e4, masked keys at logit 0 with values far outside the others"),
        EntryFamily("mask_attack_far", partial(_attack_entries, depth=2e9), False,
                    "the same at -2e9 (float16: as low as dot products get)"),
        EntryFamily("zero_query", _zero_query, False,
                    "query 0: weights are uniform on the visible keys, which shows the mask"),
        EntryFamily("worked_example", _worked_example, False,
                    "the four tokens of self_attention_note, logits 0 or far above"),
        EntryFamily("spread_logits", _spread_logits, True,
                    "N(0,1), queries twice that: shows a drift of the scale best"),
        EntryFamily("beyond_float16", _beyond_float16, False,
                    "the largest logits of a row are beyond float16's range", overflows=True),
    )
}
