"""What was worked out is remembered for a while: so many values, and so many bytes of their arrays.

Memory that is free again is kept for the next case, or handed back to the system.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import TypeVar

import numpy as np

HEAP = 2**25 - 2**14
"""Bytes of the block that `keep_heap` frees: more, and glibc takes no hint from it."""


@cache
def keep_heap() -> None:
    """Free one large block: glibc, from then on, keeps so much of what is freed instead of handing it to the system.

    Each case frees all of its arrays. Fresh pages for the next were a third of its time, and half of a large call's.
    """
    np.empty(HEAP, np.uint8)


def hand_back() -> None:
    """Hand the free pages back, where the C library can (glibc): those between what is remembered, too.

    Without it, what a thousand kernels free piles up between the little that is kept of each.
    Source: malloc_trim(3), https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


REMEMBERED = 512
"""How many answers and expectations an evaluator keeps: some clauses' worth of cases."""

MOST_BYTES = 2**25
"""How many bytes of one kind an evaluator keeps: large cases are seldom met again, and would fill the machine."""

V = TypeVar("V")


class Memory(OrderedDict[str, V]):
    """The `most` most recently used values by key, so far as their arrays hold together at most `most_bytes`; the last
    one always. The key "" is never remembered.
    """

    def __init__(self, most: int = REMEMBERED, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self.most, self.most_bytes, self.held = most, most_bytes, 0

    def recall(self, key: str, make: Callable[[], V]) -> V:
        """The remembered value, or a new one."""
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = make()
        if key:
            self[key] = value
            self.held += held_bytes(value)
            while len(self) > self.most or (self.held > self.most_bytes and len(self) > 1):
                self.held -= held_bytes(self.popitem(last=False)[1])
        return value


def held_bytes(value: object) -> int:
    """How many bytes the arrays hold that are fields of a dataclass, or stand in a mapping that is one. A view counts
    as if it had memory of its own.
    """
    if type(value) not in _READERS:
        _READERS[type(value)] = _reader(type(value))
    read = _READERS[type(value)]
    return sum(map(_bytes_of, read(value))) if read else 0


def _bytes_of(field: object) -> int:
    """The same of a field: of gradients by name, those of all parameters of a layer, which may be large."""
    if isinstance(field, np.ndarray):
        return field.nbytes
    if not isinstance(field, Mapping):
        return 0
    return sum(each.nbytes if isinstance(each, np.ndarray) else held_bytes(each) for each in field.values())


_Reader = Callable[[object], tuple[object, ...]]
_READERS: dict[type, _Reader | None] = {}  # every value that is kept is asked


def _reader(kind: type) -> _Reader | None:
    """What reads all fields of such a dataclass at once; None of what has fewer than two, or is none."""
    names = tuple(getattr(kind, "__dataclass_fields__", ()))
    return attrgetter(*names) if len(names) > 1 else None
