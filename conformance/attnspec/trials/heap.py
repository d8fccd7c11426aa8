"""Memory of this process that is free: kept for the next case, or handed back to the system."""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache

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
