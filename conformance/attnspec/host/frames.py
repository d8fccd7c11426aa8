"""Packs and reads frames: a small JSON header and raw little-endian arrays.

docs/protocol.md describes each byte. If a judge and a host run on one machine, they share memory
for the arrays of a frame, and only its header is sent.
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

ALIGNMENT = 64
"""Each array begins at a multiple of so many bytes: compilers of kernels take it for granted."""

SHARED_FLAG = 2**63
"""Set in the length of a body that lies in shared memory."""

MAX_HEADER_BYTES = 2**24
READ_AHEAD_BYTES = 2**16
MAX_BUFFERS = 512
"""Buffers that one write takes; systems promise 16 to 1024."""

FLOATS = {"float64": 2.0 ** -1022, "float32": 2.0 ** -126, "bfloat16": 2.0 ** -126,
          "float16": 2.0 ** -14}
"""The dtypes under test, each with its smallest normal number, as `core/dtype.py` has them."""

_NAMES = ["bool", "float64", "float32", "float16"]
_NAMES += [sign + "int" + str(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)]
_STORAGE_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
BIT_DTYPES: Dict[str, Any] = {"bfloat16": np.dtype("<u2"), "float8_e4m3fn": np.dtype("u1"),
                              "float8_e5m2": np.dtype("u1"), "int4": np.dtype("u1"),
                              "uint4": np.dtype("u1"), "float4_e2m1fn": np.dtype("u1"),
                              "float8_e8m0fnu": np.dtype("u1")}
"""Dtypes that NumPy lacks: they travel, and are kept, as bits; ml_dtypes knows them by name."""
_STORAGE_DTYPES.update(BIT_DTYPES)
_PADDING = bytes(ALIGNMENT)
_ENCODER = json.JSONEncoder(check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"
# up to so many bytes, a copy to compare is up to ten times as fast as an array's own comparison
_COMPARED_AS_BYTES = 2**16


class Entries(NamedTuple):
    """An array, any shape, and its dtype's name; for a dtype in `BIT_DTYPES` its bits."""

    dtype: str
    array: Any


class BrokenFrame(Exception):  # noqa: N818  (named for what happened)
    """The bytes that came are not a frame."""


Header = Dict[str, Any]


def storage_dtype(dtype: str) -> Any:
    """Returns the NumPy dtype that stores a dtype. Raises BrokenFrame for an unknown name."""
    if dtype not in _STORAGE_DTYPES:
        raise BrokenFrame("there is no dtype " + repr(dtype)[:40])
    return _STORAGE_DTYPES[dtype]


def pack_frame(header: Mapping[str, Any], arrays: Sequence[Entries],
               room: Any = None) -> List[Any]:
    """Packs a frame into buffers; its arrays are put into the room, uint8, if they fit."""
    layouts: List[Mapping[str, Any]] = []
    body: List[Any] = []
    at = 0
    for dtype, array in arrays:
        memory, layout = span_memory(array)
        count = memory.nbytes
        layouts.append({"dtype": dtype, "shape": array.shape, "bytes": count, **layout})
        body.append(memory)
        if count % ALIGNMENT:
            body.append(_PADDING[:-count % ALIGNMENT])
        at += count + -count % ALIGNMENT
    text = _ENCODER.encode({**header, "arrays": layouts} if layouts else header).encode()
    if room is None or not 0 < at <= room.size:
        return [PREFIX.pack(len(text), at) + text, *body]
    view, put = memoryview(room), 0
    for part in body:
        view[put:put + len(part)] = part
        put += len(part)
    return [PREFIX.pack(len(text), at | SHARED_FLAG) + text]


def span_memory(array: Any) -> Tuple[memoryview, Mapping[str, Any]]:
    """Returns the bytes that an array, any shape, spans, and its layout if it is not contiguous.
    Gaps between its entries are sent as zeros, so that their content never varies.
    """
    if array.flags.c_contiguous:
        return memoryview(array).cast("B") if array.size else memoryview(b""), {}
    low, high = bounds(array.shape, array.strides)
    memory: Any = np.zeros(high - low + array.itemsize if array.size else 0, np.uint8)
    place_array(array.shape, array.dtype, memory, array.strides, -low)[...] = array
    return memoryview(memory), {"strides": list(array.strides), "offset": -low}


def bounds(shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, int]:
    """Computes how many bytes of an array, any shape, lie before and after the first entry."""
    reach = [(length - 1) * stride for length, stride in zip(shape, strides) if length]
    return sum(each for each in reach if each < 0), sum(each for each in reach if each > 0)


def place_array(shape: Sequence[int], dtype: Any, memory: Any, strides: Optional[Sequence[int]],
                offset: int) -> Any:
    """Makes an array of any shape of these bytes, by default contiguous. Raises ValueError."""
    if not memory.size:
        return np.empty(shape, dtype)
    if min(shape, default=0) < 0:  # NumPy minds only where it is given strides
        raise ValueError("a negative length")
    return np.ndarray(tuple(shape), dtype, memory, offset, tuple(strides) if strides else None)


def receive_frame(incoming: Incoming) -> Tuple[Header, List[Entries]]:
    """Reads the next frame; its arrays, any shape, can be written to. Raises BrokenFrame."""
    header_bytes, body_bytes = PREFIX.unpack(incoming.text(PREFIX.size))
    if header_bytes > MAX_HEADER_BYTES:
        raise BrokenFrame("a header of {} bytes".format(header_bytes))
    try:
        words = incoming.text(header_bytes).decode().strip(_BLANK)
        # json.loads tells the same, in more steps, and each is slow after a pause
        header, end = _DECODER.raw_decode(words)
        if end != len(words):
            raise ValueError("more than one object")
        return header, incoming.arrays(header.pop("arrays", ()), body_bytes)
    except BrokenFrame:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError,
            RecursionError) as wrong:
        raise BrokenFrame(repr(wrong)) from None


def _split_arrays(layouts: Sequence[Mapping[str, Any]], memory: Any) -> List[Entries]:
    """Makes the arrays, any shape, that lie in memory, uint8, one after the other."""
    at, arrays = 0, []
    for each in layouts:
        stored, part = storage_dtype(each["dtype"]), memory[at:at + each["bytes"]]
        at += each["bytes"] + -each["bytes"] % ALIGNMENT
        arrays.append(Entries(each["dtype"],
                              place_array(each["shape"], stored, part, each.get("strides"),
                                          each.get("offset", 0))))
    return arrays


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays of one shape, any shape, have the same bits: NaN is NaN, +0 is not -0."""
    are_contiguous = first.flags.c_contiguous and second.flags.c_contiguous
    if first.nbytes <= _COMPARED_AS_BYTES and are_contiguous:
        return bool(first.tobytes() == second.tobytes())
    bits: Any = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[first.itemsize]
    return bool((first.view(bits) == second.view(bits)).all())


def aligned_buffer(count: int) -> Any:
    """Allocates memory whose first byte is aligned; uint8 (count,)."""
    memory = np.empty(count + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[first:first + count]


class Incoming:
    """Reads frames in as few system calls as possible.

    fill: reads as many bytes into memory as are there; raises at the end.
    ahead: memory for bytes that are read before they are needed.
    most: the most bytes of a part of a frame.
    room: shared memory with the bodies that are not sent, uint8; None where no memory is shared.
    memory: allocates the memory for a body.
    """

    def __init__(self, fill: Callable[[memoryview], int], ahead: memoryview, *,
                 most: int = SHARED_FLAG, room: Any = None,
                 memory: Callable[[int], Any] = aligned_buffer) -> None:
        self._fill, self._ahead, self._most = fill, ahead, most
        self._room, self._memory = room, memory
        self._from, self._to = 0, 0  # what was read ahead and is not yet asked for
        self._layouts: Sequence[Mapping[str, Any]] = ()  # of the last frame, and its body
        self._body: Any = None
        self._is_sent = True

    def text(self, count: int) -> bytes:
        """Reads so many bytes."""
        if count > self._most:
            raise BrokenFrame("{} bytes where {} can be meant".format(count, self._most))
        if self._from == self._to and count:
            self._from, self._to = 0, self._fill(self._ahead)
        if count > self._to - self._from:
            return bytes(self._read(np.empty(count, np.uint8)))
        self._from += count
        return bytes(self._ahead[self._from - count:self._from])

    def arrays(self, layouts: Sequence[Mapping[str, Any]], length: int) -> List[Entries]:
        """Reads a body's arrays, any shape, into new memory. length: as in the prefix."""
        self._layouts, self._body = layouts, None
        self._is_sent, count = not length & SHARED_FLAG, length & ~SHARED_FLAG
        if count > self._most:
            raise BrokenFrame("{} bytes where {} can be meant".format(count, self._most))
        memory = self._memory(count)
        if self._is_sent:
            self._read(memory)
        elif self._room is None or count > self._room.size:
            raise BrokenFrame("{} bytes in memory that is not shared".format(count))
        else:
            memory[...] = self._room[:count]
        self._body = memory
        return _split_arrays(layouts, memory)

    def watch_arrays(self, arrays: Sequence[Entries]) -> Callable[[], List[int]]:
        """Returns a function that lists which of the frame's arrays, any shape, have changed.
        Arrays that were sent are copied for this; shared memory still has the original.
        """
        body, layouts, room = self._body, self._layouts, self._room
        before: List[Entries] = []
        if self._is_sent:
            before = [Entries(each.dtype, each.array.copy()) for each in arrays]

        def changed() -> List[int]:
            if not self._is_sent and same_bits(body.view(np.uint64),
                                               room[:len(body)].view(np.uint64)):
                return []
            originals = before or _split_arrays(layouts, room)
            return [at for at, each in enumerate(arrays)
                    if not same_bits(each.array, originals[at].array)]

        return changed

    def _read(self, memory: Any) -> Any:
        """Fills the memory, uint8."""
        view, at, count = memoryview(memory), 0, len(memory)
        while at < count:
            if self._from == self._to and count - at >= READ_AHEAD_BYTES:
                at += self._fill(view[at:])
                continue
            if self._from == self._to:
                self._from, self._to = 0, self._fill(self._ahead)
            part = min(count - at, self._to - self._from)
            view[at:at + part] = self._ahead[self._from:self._from + part]
            at, self._from = at + part, self._from + part
        return memory


def send_frame(parts: Sequence[Any], write: Callable[[List[Any]], int]) -> None:
    """Writes a frame in few writes, each of which wakes the reader. write: as much as possible."""
    left = [memoryview(part) for part in parts if len(part)]
    while left:
        done = write(left[:MAX_BUFFERS])
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = left[0][done:]


ROOM_BYTES = 2**24
"""Bytes for the arrays of one frame; the arrays of a larger one are sent."""

_POISONED_BYTES = 4096  # bytes behind an array that hold no number of an earlier one
_POISON = b"\xFE" * _POISONED_BYTES  # as float32 -1.7e38, as float16 NaN


class Rooms(NamedTuple):
    """Shared memory for requests and for answers, each uint8 (ROOM,); None if not shared."""

    requests: Any
    answers: Any


NO_ROOMS = Rooms(None, None)


def map_rooms(descriptor: int) -> Rooms:
    """Maps the memory behind a descriptor of 2 * ROOM_BYTES, which must stay open meanwhile."""
    memory = np.frombuffer(mmap.mmap(descriptor, 2 * ROOM_BYTES), np.uint8)
    return Rooms(memory[:ROOM_BYTES], memory[ROOM_BYTES:])


class ReusedMemory:
    """Reuses one piece of memory once no array uses it, since fresh pages take time."""

    def __init__(self) -> None:
        # else children would share it
        own = mmap.mmap(-1, ROOM_BYTES + _POISONED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes = memoryview(own)
        self._memory: List[Any] = [np.frombuffer(own, np.uint8)]
        self._unheld_count = self._count_holders()

    def _count_holders(self) -> int:
        # PyPy counts none
        if hasattr(sys, "getrefcount"):
            return sys.getrefcount(self._memory[0])
        return 0

    def reuse_buffer(self, count: int) -> Any:
        """Returns memory whose first byte is aligned; uint8 (count,)."""
        is_unheld = self._unheld_count and self._count_holders() == self._unheld_count
        if count > ROOM_BYTES or not is_unheld:
            return aligned_buffer(count)
        self._bytes[count:count + _POISONED_BYTES] = _POISON
        return self._memory[0][:count]
