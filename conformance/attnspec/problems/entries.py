"""From a seed to numbers: random words, the same on every machine, and entries made of them by operations that IEEE 754
rounds in one way only. A value family makes the entries of one key/value head and the query heads it serves.
"""

from __future__ import annotations

import functools
import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from attnspec.core.nouns import DType
from attnspec.problems.domain import FamilyName

Words = NDArray[np.uint32]


_RAW, _HALF = np.dtype("<u8"), np.dtype("<u4")


class _State(TypedDict):
    state: int
    inc: int


# Setting the state of a standing generator takes 4 µs, making one 15 µs. One a thread, since it is changed in place.
_local = threading.local()


def random_words(seed: int, label: str, shape: tuple[int, ...]) -> Words:
    """Uniform random 32-bit integers of this shape; they follow from (seed, label) alone, as a prefix of one stream."""
    generator = _generator()
    generator.state = {"bit_generator": "PCG64", "state": _start(seed, label), "has_uint32": 0, "uinteger": 0}
    count = math.prod(shape)
    raw = generator.random_raw((count + 1) // 2)
    # low half first, also on a big-endian machine
    return raw.astype(_RAW, copy=False).view(_HALF)[:count].reshape(shape)


def _generator() -> np.random.PCG64:
    if not hasattr(_local, "generator"):
        _local.generator = np.random.PCG64(0)
    generator: np.random.PCG64 = _local.generator
    return generator


def _start(seed: int, label: str) -> _State:
    digest = hashlib.blake2b(f"{seed}:{label}".encode(), digest_size=32).digest()
    # the increment of a linear congruential generator must be odd
    return {"state": int.from_bytes(digest[:16], "little"), "inc": int.from_bytes(digest[16:], "little") | 1}


Floats = NDArray[np.floating[Any]]

_CELLS = 4096          # of the table of normal quantiles, picked by the upper 12 bits of a word
_INSIDE = 2.0**-20     # the lower 20 bits place the entry inside its cell
_BLOCK = 16384         # entries filled at once: they stay in the cache (4.4 ms become 1.6 ms at 262,144 entries)


def uniform_numbers(words: Words) -> Floats:
    """Uniform numbers in [0, 1)."""
    return words * 2.0**-32


def whole_numbers(words: Words, low: int, high: int) -> Floats:
    """Whole numbers low … high, at most 65,536 of them."""
    return ((words >> np.uint32(16)) * np.uint32(high - low + 1) >> np.uint32(16)) + float(low)


def random_signs(words: Words) -> Floats:
    """Random signs, +1 or -1."""
    return 1.0 - 2.0 * (words & np.uint32(1))


def next_words(words: Words) -> Words:
    """Other words made from these, where one entry needs two."""
    return (words ^ (words >> np.uint32(15))) * np.uint32(2654435769)


def normal_numbers(words: Words) -> Floats:
    """N(0, 1), but for a density that is constant inside each of 4,096 cells of equal probability."""
    flat = np.ascontiguousarray(words).reshape(-1)
    filled = np.empty(flat.size)
    start, slope = _quantiles()
    for first in range(0, flat.size, _BLOCK):
        part, entries = flat[first:first + _BLOCK], filled[first:first + _BLOCK]
        cell = (part >> np.uint32(20)).astype(np.intp)
        slope.take(cell, out=entries, mode="clip")  # no cell is out of range, and clipping takes it on trust
        entries *= part & np.uint32(0xFFFFF)
        entries += start.take(cell, mode="clip")
    return filled.reshape(words.shape)


@functools.cache
def _quantiles() -> tuple[Floats, Floats]:
    """Where each cell starts, and how far one step of the lower bits goes.

    The quantiles are rounded to 2^-40, which hides the last bit of the math library. The outermost cells, unbounded by
    nature, end where their second moment is that of the normal's tail.
    """
    law = NormalDist()
    inner = np.round(np.array([law.inv_cdf(cell / _CELLS) for cell in range(1, _CELLS)]) * 2.0**40) * 2.0**-40
    edge = float(inner[-1])
    second_moment = _CELLS * edge * law.pdf(edge) + 1.0
    # (a² + ab + b²)/3 is the mean square of the uniform law on [a, b]
    end = round(0.5 * (-edge + (12.0 * second_moment - 3.0 * edge * edge) ** 0.5), 9)
    starts = np.concatenate([[-end], inner, [end]])
    return starts[:-1], np.diff(starts) * _INSIDE


def gaussian_numbers(words: Words) -> Floats:
    """N(0, 1) as exact as 32 bits allow (Box and Muller), for clauses that state a false-alarm rate. Five times slower.

    Rounded to multiples of 2^-24, so that the last bits of the math library's log and cos do not show.
    """
    radius = np.sqrt(-2.0 * np.log((words + 0.5) * 2.0**-32))
    angle = (2.0 * np.pi) * uniform_numbers(next_words(next_words(words)))
    return np.asarray(np.rint(radius * np.cos(angle) * 2.0**24) * 2.0**-24)


def student_t(words: Words) -> Floats:
    """Student's t with 2 degrees of freedom, whose quantile is (2p-1)/sqrt(2p(1-p)): the variance is infinite."""
    p = (words + 0.5) * 2.0**-32
    return np.asarray((2.0 * p - 1.0) / np.sqrt(2.0 * p * (1.0 - p)))


def log_normal(words: Words, octaves: float) -> Floats:
    """Either sign, mantissa uniform, exponent a rounded normal with this standard deviation (powers of two)."""
    entries = uniform_numbers(next_words(words))
    entries += 1.0
    entries *= _powers_of_two(octaves)[words >> np.uint32(20)]
    entries *= random_signs(words)
    return entries


@functools.cache
def _powers_of_two(octaves: float) -> Floats:
    """The power of two that each cell of the normal law stands for."""
    start, _ = _quantiles()
    exponents = np.rint(octaves * start - 0.5).astype(np.int32)
    return np.asarray(np.ldexp(1.0, exponents))


def one_hot(words: Words) -> Floats:
    """Rows with a single 1, at a place that the row's first word chooses."""
    width = words.shape[-1]
    place = whole_numbers(words[..., :1], 0, width - 1)
    return np.asarray(np.arange(width) == place, np.float64)


@dataclass(frozen=True, slots=True)
class HeadWords:
    """Random words for n heads: query (n,G,T,D), G = H/Hkv; key (n,S,D); value (n,S,Dv). The dtype sets the range."""

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
    """One way to make the entries of a problem, and its purpose. overflows: its logits are to overflow float16."""

    name: FamilyName
    make: Callable[[HeadWords], Entries]
    generic: bool
    meaning: str
    overflows: bool = False
