"""These faults take bytes of two four-bit codes apart wrongly.

Each function packs the codes that it is handed, and unpacks the bytes as its author did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES, pack_nibbles
from attnspec.aspects.quantised.keyword import POOL
from attnspec.aspects.quantised.stage import Restore
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import INPUTS, Array

Unpack = Callable[[Array, int, bool], Array]
"""Makes codes (B,H,S,D) of bytes (B,H,S,D/2), the feature count, and whether codes have a sign."""

LEAST, MOST = -8, 15


def _repack(work: PreparedCall, unpack: Unpack, *names: str) -> PreparedCall:
    """The call with codes (B,H,S,D) of four bits packed and unpacked again."""
    for name in names:
        codes = getattr(work, name)
        has_sign = bool((codes < 0).any())
        if getattr(work, f"{name}_scale") is None or not _are_nibbles(codes, has_sign):
            continue
        bytes_ = pack_nibbles(codes.astype(np.int8).view(np.uint8) & np.uint8(15), "low_first")
        work = work.but(**{name: unpack(bytes_, codes.shape[-1], has_sign).astype(codes.dtype)})
    return work


def _are_nibbles(codes: Array, has_sign: bool) -> bool:
    """Whether codes of any shape are whole numbers of four bits."""
    lowest, largest = (LEAST, MOST // 2) if has_sign else (0, MOST)
    return bool((np.isfinite(codes) & (codes == np.rint(codes)) & (codes >= lowest) & (codes <= largest)).all())


def read_signed(nibbles: Array) -> Array:
    """Read nibbles of any shape as numbers of two's complement."""
    wide = nibbles.astype(np.int16)
    return np.where(wide >= 8, wide - 16, wide)


def _split(bytes_: Array, has_sign: bool) -> tuple[Array, Array]:
    """The low and the high nibbles of bytes of any shape as numbers."""
    low, high = bytes_ & 15, bytes_ >> 4
    if has_sign:
        return read_signed(low), read_signed(high)
    return low.astype(np.int16), high.astype(np.int16)


def _in_pairs(first: Array, second: Array, features: int) -> Array:
    """(B,H,S,D): two arrays (B,H,S,D/2), by turns."""
    return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)[..., :features]


def _right(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): low nibbles first, each with its sign."""
    return _in_pairs(*_split(bytes_, has_sign), features)


def _without_sign(bytes_: Array, features: int, _: bool) -> Array:
    """(B,H,S,D): no nibble has a sign."""
    return _right(bytes_, features, False)


def _low_without_sign(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): a shift brings the sign of the high nibble; the low one is masked only."""
    _, high = _split(bytes_, has_sign)
    return _in_pairs((bytes_ & 15).astype(np.int16), high, features)


def _high_borrows(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): a low nibble with a sign was added, which takes 1 from the high one."""
    low, high = _split(bytes_, has_sign)
    return _in_pairs(low, np.where(low < 0, high - 1, high), features)


def _in_halves(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): all low nibbles, then all high ones."""
    return np.concatenate(_split(bytes_, has_sign), axis=-1)[..., :features]


def _less_eight(bytes_: Array, features: int, _: bool) -> Array:
    """(B,H,S,D): nibbles are taken to be 8 more than the codes."""
    return _right(bytes_, features, False) - 8


def _low_twice(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): the high nibble is not shifted down before it is masked."""
    low, _ = _split(bytes_, has_sign)
    return _in_pairs(low, low, features)


def _odd_lost(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): of an odd number of features, the last byte is not read."""
    codes = _right(bytes_, features, has_sign)
    is_lost = (np.arange(features) == features - 1) & (features % 2 == 1)
    return np.where(is_lost, 0, codes)


def _next_row(bytes_: Array, features: int, has_sign: bool) -> Array:
    """(B,H,S,D): rows of an odd number of features are taken to have no gap between them."""
    codes = _right(bytes_, 2 * bytes_.shape[-1], has_sign)
    flat = codes.reshape(*codes.shape[:2], -1)
    return flat[..., :codes.shape[2] * features].reshape(*codes.shape[:3], features)


_SIGNED, _ANY = "negative {} codes of four bits", "{} codes of four bits, more features than one"
_WRONG: Mapping[str, tuple[str, str, Unpack]] = {
    "without_sign": ("The sign of {} nibbles is not extended.", _SIGNED, _without_sign),
    "low_without_sign": ("The sign of low {} nibbles is not extended.", _SIGNED, _low_without_sign),
    "borrowed": ("Low {} nibbles with a sign take 1 from the high ones.", f"{_SIGNED}, more features than one",
                 _high_borrows),
    "in_halves": ("Low {} nibbles are taken for the first half of the features.",
                  "{} codes of four bits, more features than two", _in_halves),
    "less_eight": ("8 is taken off of {} nibbles that were stored as they are.", "{} codes of four bits", _less_eight),
    "low_twice": ("The low {} nibble is read in place of the high one.", _ANY, _low_twice),
    "odd_lost": ("Of an odd number of {} features the last nibble is lost.", "{} codes of four bits, an odd width",
                 _odd_lost),
    "without_gap": ("Rows of an odd number of {} nibbles are taken to have no gap.",
                    "{} codes of four bits, an odd width, more tokens than one", _next_row),
}
"""By name: story, reach, and how bytes are taken apart; {} is the array."""


def _unpacking(unpack: Unpack, *names: str) -> Restore:
    """A `restore` stage that takes the bytes of some arrays apart in a way of its own."""
    return lambda work: sound.restore(_repack(work, unpack, *names))


def _of_nibbles() -> Iterator[Fault]:
    """Each mistake with the nibbles of keys and of values."""
    for keyword, array in NAMES.items():
        if array != "query":
            for name, (story, reach, unpack) in _WRONG.items():
                yield Fault(f"{array}_nibbles_{name}", keyword, story.format(array), reach.format(array),
                            staged(restore=_unpacking(unpack, array)))


NIBBLE_FAULTS = tuple(_of_nibbles())

SOUND_NIBBLES = (
    SoundFormulation("nibbles_unpacked", "codes of four bits are packed two to a byte, and taken apart again",
                     staged(restore=_unpacking(_right, *INPUTS)), POOL),
)
