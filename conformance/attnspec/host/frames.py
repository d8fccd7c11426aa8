"""The wire: a small JSON header and raw little-endian arrays. docs/protocol.md says it byte by byte."""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

PREFIX = struct.Struct("<IQ")
"""Bytes of the header, and of the arrays behind it."""

ALIGNED = 64
"""Each array begins at a multiple of so many bytes: compilers of kernels take it for granted."""

LARGEST_HEADER = 2**24
PIECE = 2**16
AT_ONCE = 512
"""Buffers that one write takes; systems promise 16 to 1024."""

_NAMES = ["bool", "float64", "float32", "float16"]
_NAMES += [sign + "int" + str(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)]
_KEPT_AS = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
_KEPT_AS["bfloat16"] = np.dtype("<u2")
_PADDING = bytes(ALIGNED)


class Entries(NamedTuple):
    """An array and the name of its dtype. A bfloat16 travels and is kept as its bits, in uint16; any shape."""

    dtype: str
    array: Any


class BrokenFrame(Exception):  # noqa: N818  (named for what happened)
    """What came is no frame."""


Header = Dict[str, Any]
Reader = Callable[[int], Any]  # so many bytes, in a buffer that can be written to


def storage(dtype: str) -> Any:
    """The NumPy dtype in which the entries of a dtype are kept. Raises BrokenFrame for a name that is none."""
    if dtype not in _KEPT_AS:
        raise BrokenFrame("there is no dtype " + repr(dtype)[:40])
    return _KEPT_AS[dtype]


def packed(header: Mapping[str, Any], arrays: Sequence[Entries]) -> List[Any]:
    """The frame, as buffers to be written one after the other."""
    told, body, at = [], [], 0
    for dtype, array in arrays:
        memory, layout = spanned(array)
        told.append({"dtype": dtype, "shape": array.shape, "bytes": memory.nbytes, **layout})
        body += [memory, _PADDING[:-memory.nbytes % ALIGNED]]
        at += memory.nbytes + len(body[-1])
    text = json.dumps({**header, "arrays": told} if told else header).encode()
    return [PREFIX.pack(len(text), at) + text, *body]


def spanned(array: Any) -> Tuple[memoryview, Mapping[str, Any]]:
    """The bytes of an array, any shape, from its lowest to its highest, and how it lies in them if not in plain order.

    The gaps between its entries travel as zeros, so that who reads them reads the same each time.
    """
    if array.flags.c_contiguous:
        return memoryview(array.reshape(-1).view(np.uint8)), {}
    low, high = bounds(array.shape, array.strides)
    memory: Any = np.zeros(high - low + array.itemsize if array.size else 0, np.uint8)
    placed(array.shape, array.dtype, memory, array.strides, -low)[...] = array
    return memoryview(memory), {"strides": list(array.strides), "offset": -low}


def bounds(shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, int]:
    """How far entries of an array of any shape lie before and behind the first one, in bytes."""
    reach = [(length - 1) * stride for length, stride in zip(shape, strides) if length]
    return sum(each for each in reach if each < 0), sum(each for each in reach if each > 0)


def placed(shape: Sequence[int], dtype: Any, memory: Any, strides: Sequence[int], offset: int) -> Any:
    """The array of any shape that lies in these bytes."""
    if not memory.size:
        return np.empty(shape, dtype)
    return np.ndarray(tuple(shape), dtype, memory, offset, tuple(strides))


def received(read: Reader) -> Tuple[Header, List[Entries]]:
    """The next frame. The arrays, any shape, lie in memory of their own, and can be written to. Raises BrokenFrame."""
    header_bytes, body_bytes = PREFIX.unpack(bytes(read(PREFIX.size)))
    if header_bytes > LARGEST_HEADER:
        raise BrokenFrame("a header of {} bytes".format(header_bytes))
    try:
        header = json.loads(bytes(read(header_bytes)).decode())
        return header, _arrays(header.pop("arrays", ()), read(body_bytes) if body_bytes else b"")
    except BrokenFrame:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError, RecursionError) as wrong:
        raise BrokenFrame(repr(wrong)) from None


def _arrays(told: Sequence[Mapping[str, Any]], body: Any) -> List[Entries]:
    """The arrays, any shape, that lie in the body one after the other."""
    memory, at, found = np.frombuffer(body, np.uint8), 0, []
    for each in told:
        kept, part = storage(each["dtype"]), memory[at:at + each["bytes"]]
        at += each["bytes"] + -each["bytes"] % ALIGNED
        strides = each.get("strides") or _plain(each["shape"], kept.itemsize)
        found.append(Entries(each["dtype"], placed(each["shape"], kept, part, strides, each.get("offset", 0))))
    return found


def _plain(shape: Sequence[int], itemsize: int) -> List[int]:
    """The strides of an array in plain order, any shape."""
    strides = [itemsize]
    for length in list(shape)[:0:-1]:
        strides.insert(0, strides[0] * length)
    return strides[-len(shape):] if len(shape) else []


class Incoming:
    """What comes in, in as few reads as may be. fill: reads into memory as much as is there; it raises at the end.

    ahead: where to, what was not asked for yet.
    """

    def __init__(self, fill: Callable[[memoryview], int], ahead: memoryview) -> None:
        self._fill, self._ahead = fill, ahead
        self._from, self._to = 0, 0  # what was read ahead and is not yet asked for

    def read(self, count: int) -> Any:
        """So many bytes, in memory that can be written to; uint8 (count,)."""
        memory = buffer(count)
        view, at = memoryview(memory), 0
        while at < count:
            if self._from == self._to and count - at >= PIECE:
                at += self._fill(view[at:])
                continue
            if self._from == self._to:
                self._from, self._to = 0, self._fill(self._ahead)
            part = min(count - at, self._to - self._from)
            view[at:at + part] = self._ahead[self._from:self._from + part]
            at, self._from = at + part, self._from + part
        return memory


def send(parts: Sequence[Any], write: Callable[[List[Any]], int]) -> None:
    """Write the buffers of a frame, in as few writes as may be: each wakes whoever reads. write: as much as goes."""
    left = [memoryview(part) for part in parts if len(part)]
    while left:
        done = write(left[:AT_ONCE])
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = left[0][done:]


def buffer(count: int) -> Any:
    """So many bytes that can be written to, the first of them aligned; uint8 (count,)."""
    memory = np.empty(count + ALIGNED, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNED
    return memory[first:first + count]
