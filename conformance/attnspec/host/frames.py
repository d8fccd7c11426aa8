"""The wire: a small JSON header and raw little-endian arrays. docs/protocol.md says it byte by byte.

A judge and a host on one machine share memory: the arrays of a frame lie there, and only its header is sent.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

PREFIX = struct.Struct("<IQ")
"""Bytes of the header, and of the arrays behind it."""

ALIGNED = 64
"""Each array begins at a multiple of so many bytes: compilers of kernels take it for granted."""

SHARED = 2**63
"""Set in the length of a body that lies in shared memory."""

LARGEST_HEADER = 2**24
PIECE = 2**16
AT_ONCE = 512
"""Buffers that one write takes; systems promise 16 to 1024."""

FLOATS = {"float64": 2.0 ** -1022, "float32": 2.0 ** -126, "bfloat16": 2.0 ** -126, "float16": 2.0 ** -14}
"""The dtypes under test, each with its smallest normal number (IEEE 754). `core/dtype.py` has the same."""

_NAMES = ["bool", "float64", "float32", "float16"]
_NAMES += [sign + "int" + str(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)]
_KEPT_AS = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
BITS: Dict[str, Any] = {"bfloat16": np.dtype("<u2"), "float8_e4m3fn": np.dtype("u1"), "float8_e5m2": np.dtype("u1"),
                        "int4": np.dtype("u1"), "uint4": np.dtype("u1"),
                        "float4_e2m1fn": np.dtype("u1"), "float8_e8m0fnu": np.dtype("u1")}
"""What NumPy itself has no dtype for travels, and is kept, as its bits; ml_dtypes and frameworks know it by name."""
_KEPT_AS.update(BITS)
_PADDING = bytes(ALIGNED)
_ENCODER = json.JSONEncoder(check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"
_AS_BYTES = 2**16  # up to so many bytes, a copy to compare is up to ten times as fast as an array's own comparison


class Entries(NamedTuple):
    """An array and the name of its dtype. What `BITS` names is kept as its bits, in uint16 or uint8; any shape."""

    dtype: str
    array: Any


class BrokenFrame(Exception):  # noqa: N818  (named for what happened)
    """What came is no frame."""


Header = Dict[str, Any]


def storage(dtype: str) -> Any:
    """The NumPy dtype in which the entries of a dtype are kept. Raises BrokenFrame for a name that is none."""
    if dtype not in _KEPT_AS:
        raise BrokenFrame("there is no dtype " + repr(dtype)[:40])
    return _KEPT_AS[dtype]


def packed(header: Mapping[str, Any], arrays: Sequence[Entries], room: Any = None) -> List[Any]:
    """The frame, as buffers to be written one after the other; its arrays are put into the room, uint8, if they fit."""
    told: List[Mapping[str, Any]] = []
    body: List[Any] = []
    at = 0
    for dtype, array in arrays:
        memory, layout = spanned(array)
        count = memory.nbytes
        told.append({"dtype": dtype, "shape": array.shape, "bytes": count, **layout})
        body.append(memory)
        if count % ALIGNED:
            body.append(_PADDING[:-count % ALIGNED])
        at += count + -count % ALIGNED
    text = _ENCODER.encode({**header, "arrays": told} if told else header).encode()
    if room is None or not 0 < at <= room.size:
        return [PREFIX.pack(len(text), at) + text, *body]
    view, put = memoryview(room), 0
    for part in body:
        view[put:put + len(part)] = part
        put += len(part)
    return [PREFIX.pack(len(text), at | SHARED) + text]


def spanned(array: Any) -> Tuple[memoryview, Mapping[str, Any]]:
    """The bytes of an array, any shape, from its lowest to its highest, and how it lies in them if not in plain order.

    The gaps between its entries travel as zeros, so that who reads them reads the same each time.
    """
    if array.flags.c_contiguous:
        return memoryview(array).cast("B") if array.size else memoryview(b""), {}
    low, high = bounds(array.shape, array.strides)
    memory: Any = np.zeros(high - low + array.itemsize if array.size else 0, np.uint8)
    placed(array.shape, array.dtype, memory, array.strides, -low)[...] = array
    return memoryview(memory), {"strides": list(array.strides), "offset": -low}


def bounds(shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, int]:
    """How far entries of an array of any shape lie before and behind the first one, in bytes."""
    reach = [(length - 1) * stride for length, stride in zip(shape, strides) if length]
    return sum(each for each in reach if each < 0), sum(each for each in reach if each > 0)


def placed(shape: Sequence[int], dtype: Any, memory: Any, strides: Optional[Sequence[int]], offset: int) -> Any:
    """The array of any shape that lies in these bytes; without strides, in plain order. Raises ValueError."""
    if not memory.size:
        return np.empty(shape, dtype)
    if min(shape, default=0) < 0:  # NumPy minds only where it is given strides
        raise ValueError("a negative length")
    return np.ndarray(tuple(shape), dtype, memory, offset, tuple(strides) if strides else None)


def received(incoming: Incoming) -> Tuple[Header, List[Entries]]:
    """The next frame. The arrays, any shape, lie in memory of their own, and can be written to. Raises BrokenFrame."""
    header_bytes, body_bytes = PREFIX.unpack(incoming.text(PREFIX.size))
    if header_bytes > LARGEST_HEADER:
        raise BrokenFrame("a header of {} bytes".format(header_bytes))
    try:
        header = _header(incoming.text(header_bytes).decode())
        return header, incoming.arrays(header.pop("arrays", ()), body_bytes)
    except BrokenFrame:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError, RecursionError) as wrong:
        raise BrokenFrame(repr(wrong)) from None


def _header(text: str) -> Header:
    """What JSON says. Raises ValueError for what is none."""
    words = text.strip(_BLANK)
    header, end = _DECODER.raw_decode(words)  # json.loads tells the same, in more steps, and each is slow after a pause
    if end != len(words):
        raise ValueError("more than one object")
    return header  # type: ignore[no-any-return]  # whatever it is, `received` finds out


def _arrays(told: Sequence[Mapping[str, Any]], memory: Any) -> List[Entries]:
    """The arrays, any shape, that lie in memory, uint8, one after the other."""
    at, found = 0, []
    for each in told:
        kept, part = storage(each["dtype"]), memory[at:at + each["bytes"]]
        at += each["bytes"] + -each["bytes"] % ALIGNED
        found.append(Entries(each["dtype"], placed(each["shape"], kept, part, each.get("strides"),
                                                   each.get("offset", 0))))
    return found


def same_bits(first: Any, second: Any) -> bool:
    """Whether no bit of two arrays of one shape, any shape, differs (NaN equals itself here, and +0 is not -0)."""
    if first.nbytes <= _AS_BYTES and first.flags.c_contiguous and second.flags.c_contiguous:
        return bool(first.tobytes() == second.tobytes())
    bits: Any = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[first.itemsize]
    return bool((first.view(bits) == second.view(bits)).all())


def buffer(count: int) -> Any:
    """So many bytes that can be written to, the first of them aligned; uint8 (count,)."""
    memory = np.empty(count + ALIGNED, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNED
    return memory[first:first + count]


class Incoming:
    """What comes in, in as few reads as may be. fill: reads into memory as much as is there; it raises at the end.

    ahead: where to, what was not asked for yet.  most: bytes that a part of a frame may have.  room: where bodies lie
    that are not sent, uint8; None where no memory is shared.  memory: what a body is read into.
    """

    def __init__(self, fill: Callable[[memoryview], int], ahead: memoryview, *, most: int = SHARED, room: Any = None,
                 memory: Callable[[int], Any] = buffer) -> None:
        self._fill, self._ahead, self._most, self._room, self._memory = fill, ahead, most, room, memory
        self._from, self._to = 0, 0  # what was read ahead and is not yet asked for
        self._told: Sequence[Mapping[str, Any]] = ()  # of the last frame, and its body
        self._body: Any = None
        self._sent = True

    def text(self, count: int) -> bytes:
        """So many bytes."""
        self._check(count)
        if self._from == self._to and count:
            self._from, self._to = 0, self._fill(self._ahead)
        if count > self._to - self._from:
            return bytes(self._read(np.empty(count, np.uint8)))
        self._from += count
        return bytes(self._ahead[self._from - count:self._from])

    def arrays(self, told: Sequence[Mapping[str, Any]], length: int) -> List[Entries]:
        """The arrays of a body, any shape, in memory of their own. length: as it stands before the frame."""
        self._told, self._sent, count, self._body = told, not length & SHARED, length & ~SHARED, None
        self._check(count)
        memory = self._memory(count)
        if self._sent:
            self._read(memory)
        elif self._room is None or count > self._room.size:
            raise BrokenFrame("{} bytes in memory that is not shared".format(count))
        else:
            memory[...] = self._room[:count]
        self._body = memory
        return _arrays(told, memory)

    def watched(self, arrays: Sequence[Entries]) -> Callable[[], List[int]]:
        """What tells which of the arrays of this frame, any shape, are no longer as they came, by their places. Shared
        memory still has them; what was sent is copied.
        """
        body, told, room = self._body, self._told, self._room
        before = [Entries(each.dtype, each.array.copy()) for each in arrays] if self._sent else []

        def changed() -> List[int]:
            if not self._sent and same_bits(body.view(np.uint64), room[:len(body)].view(np.uint64)):
                return []
            came = before or _arrays(told, room)
            return [at for at, each in enumerate(arrays) if not same_bits(each.array, came[at].array)]

        return changed

    def _check(self, count: int) -> None:
        if count > self._most:
            raise BrokenFrame("{} bytes where {} can be meant".format(count, self._most))

    def _read(self, memory: Any) -> Any:
        """The memory, uint8, filled with what comes."""
        view, at, count = memoryview(memory), 0, len(memory)
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
