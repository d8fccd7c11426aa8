"""Memory that a judge and a host on one machine share: the arrays of a frame lie there, and only its header is sent."""

from __future__ import annotations

import mmap
import sys
from typing import Any, List, NamedTuple

import numpy as np

from .frames import buffer

ROOM = 2**24
"""Bytes for the arrays of one frame; the arrays of a larger one are sent."""

_BEYOND = 4096  # bytes behind an array that hold no number of an earlier one
_POISON = b"\xFE" * _BEYOND  # as float32 -1.7e38, as float16 NaN


class Rooms(NamedTuple):
    """The two halves, each uint8 (ROOM,): where the judge puts what it asks, and the host what it answers; None where
    no memory is shared.
    """

    requests: Any
    answers: Any


NO_ROOMS = Rooms(None, None)


def rooms(descriptor: int) -> Rooms:
    """The memory behind a descriptor, which is of 2 * ROOM bytes and stays open as long as it is used."""
    memory = np.frombuffer(mmap.mmap(descriptor, 2 * ROOM), np.uint8)
    return Rooms(memory[:ROOM], memory[ROOM:])


class Again:
    """One piece of memory, given again and again as soon as nobody holds an array in it: fresh pages take time."""

    def __init__(self) -> None:
        own = mmap.mmap(-1, ROOM + _BEYOND, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # else children would share it
        self._bytes = memoryview(own)
        self._memory: List[Any] = [np.frombuffer(own, np.uint8)]
        self._alone = self._holders()

    def _holders(self) -> int:
        return sys.getrefcount(self._memory[0]) if hasattr(sys, "getrefcount") else 0  # PyPy counts none

    def buffer(self, count: int) -> Any:
        """So many bytes that can be written to, the first of them aligned; uint8 (count,)."""
        if not self._alone or count > ROOM or self._holders() != self._alone:
            return buffer(count)
        self._bytes[count:count + _BEYOND] = _POISON
        return self._memory[0][:count]
