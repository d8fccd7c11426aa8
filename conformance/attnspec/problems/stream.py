"""Random words from a seed and a label: the same 32-bit integers on every machine and under every version of NumPy.

The generator is PCG XSL-RR 128/64, whose raw output NumPy keeps fixed (NEP 19). Its state is set from a hash of seed
and label, so neither NumPy's seeding nor its distributions are involved, and arrays with different labels do not depend
on each other: the query's words stay what they are when the value's shape changes.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


class _State(TypedDict):
    state: int
    inc: int


# Setting the state of a standing generator takes 4 µs, making one 15 µs. One a thread, since it is changed in place.
_local = threading.local()


def words(seed: int, label: str, shape: tuple[int, ...]) -> Words:
    """Uniform random 32-bit integers of this shape; they follow from (seed, label) alone, as a prefix of one stream."""
    generator = _generator()
    generator.state = {"bit_generator": "PCG64", "state": _start(seed, label), "has_uint32": 0, "uinteger": 0}
    count = int(np.prod(shape, dtype=np.int64))
    raw = generator.random_raw((count + 1) // 2)
    # low half first, also on a big-endian machine
    return raw.astype("<u8", copy=False).view("<u4")[:count].reshape(shape)


def _generator() -> np.random.PCG64:
    if not hasattr(_local, "generator"):
        _local.generator = np.random.PCG64(0)
    generator: np.random.PCG64 = _local.generator
    return generator


def _start(seed: int, label: str) -> _State:
    digest = hashlib.blake2b(f"{seed}:{label}".encode(), digest_size=32).digest()
    # the increment of a linear congruential generator must be odd
    return {"state": int.from_bytes(digest[:16], "little"), "inc": int.from_bytes(digest[16:], "little") | 1}
