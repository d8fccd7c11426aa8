"""What a kernel may say of how it stores what it is given, or its weights: a format of codes, and
what a scale is shared by.

A kernel that quantises inside divides entries by a scale, rounds the quotients to codes, and
multiplies the scale in again somewhere. So its class names the codes and who shares a scale: `int8
by token`. The derivation of what may be off by how much is in docs/quantised.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.errors import ManifestError, quoted
from attnspec.core.storage import BLOCKED, STORAGES, UNBLOCKED, Storage, read_granularity, scale_axes

ARRAYS = ("query", "key", "value")
WEIGHTS = "weights"
STORED_WORDS: Mapping[str, str] = {f"stored_{name}": name for name in (*ARRAYS, WEIGHTS)}
"""By the word of a precision class, what is stored."""

_TEXT = re.compile(
    r"(?P<storage>\w+)"
    r"(?: by (?P<granularity>\w+(?:\(\d+\))?|\d+ tokens))?"
    r"(?: times (?P<factor>[0-9.e+-]+))?"
    r"(?: from (?P<least>[0-9.e+-]+))?"
    r"(?P<smoothed> smoothed)?(?P<divided> divided)?(?P<summed> summed)?")

_FORM = ("a format and who shares a scale, such as `int8 by token`, "
         "`int8 by tokens(64)` or `float8_e4m3fn by head`; a "
         "format of blocks, such as `mxfp8`; or a format and a fixed factor, "
         "such as `float8_e4m3fn times 256`")
_KNOWN = (*UNBLOCKED, *(f"{name}(64)" for name in BLOCKED))


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """Codes of a storage, and what is multiplied to get them.

    granularity: which entries share a scale, the largest of them over the largest code; empty
    where the factor is fixed. Codes without a sign have a zero point, too: their scale is the
    range of the entries over the largest code. Formats that define blocks round that scale: to a
    power of two, or to a narrow number that a second scale, which all entries share, is multiplied
    by.  factor: what entries are multiplied by before they are rounded, where no scale is taken
    from them.  least: what a scale is raised to, or what is added to it.  smoothed: of keys, the
    mean over all of them is taken off before.  divided: of weights, they are divided by the sum of
    their row before; else they are exp(logit - maximum). summed: of weights, they are divided by
    the sum of their codes.  nearest: entries have the nearest of the codes, and not those of a
    finer grid.
    """

    storage: str
    granularity: str = ""
    factor: float = 1.0
    least: float = 0.0
    smoothed: bool = False
    divided: bool = False
    summed: bool = False
    nearest: bool = False

    @property
    def codes(self) -> Storage:
        """The format of the codes."""
        return STORAGES[self.storage]

    @property
    def is_scaled(self) -> bool:
        """Whether a scale is taken from the entries."""
        return bool(self.granularity)

    @property
    def shared_axes(self) -> Mapping[int, int]:
        """The axes (B,H,S,D) along which scales differ, each with how many neighbours share one."""
        return scale_axes(self.granularity)

    @property
    def has_rounded_scales(self) -> bool:
        """Whether scales are rounded themselves, so that the largest entry of a block may be
        clipped.
        """
        return self.codes.block > 0

    @property
    def has_zero(self) -> bool:
        """Whether a zero point is taken from the entries, too."""
        return self.is_scaled and self.codes.is_unsigned

    @property
    def is_plain(self) -> bool:
        """Whether scales are the largest entries over the largest code, and nothing else is done
        to the entries.
        """
        return self.follows_factors and not self.has_rounded_scales

    @property
    def follows_factors(self) -> bool:
        """Whether a power of two by which all entries are multiplied leaves codes as they are."""
        return self.is_scaled and not self.has_zero and not self.least and not self.smoothed

    @property
    def relative(self) -> float:
        """Half a unit of a floating-point code, relative to it; 0 for whole numbers."""
        return 0.0 if self.codes.is_whole else 2.0**-self.codes.bits

    @property
    def absolute(self) -> float:
        """Half the distance of the smallest codes, in codes."""
        return 0.5 if self.codes.is_whole else 2.0 ** (self.codes.least - 1)

    def __str__(self) -> str:
        is_said = bool(self.granularity) and self.granularity != self.codes.shared
        shared = f" by {self.granularity}" * is_said
        factor = f" times {self.factor:g}" * (self.factor != 1)
        least = f" from {self.least:g}" * bool(self.least)
        flags = "".join(f" {name}" for name in ("smoothed", "divided", "summed")
                        if getattr(self, name))
        return f"{self.storage}{shared}{factor}{least}{flags}"


def read_stored(word: str, given: object) -> StoredFormat:
    """The format that a word of a precision class says. Raises ManifestError for one that makes no
    sense.
    """
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ManifestError(f"{word!r} in a precision class must be {_FORM}, not {quoted(given)}.")
    if found["storage"] not in STORAGES:
        raise ManifestError.unknown(f"format of codes (of {word!r} in a precision class)",
                                    found["storage"], STORAGES)
    shared, said = STORAGES[found["storage"]].shared, found["granularity"]
    if said and read_granularity(said) not in {*UNBLOCKED, *_blocked(said)}:
        raise ManifestError.unknown(f"granularity (of {word!r} in a precision class)", said,
                                    _KNOWN)
    made = StoredFormat(found["storage"], read_granularity(said) if said else shared,
                        _positive(word, found["factor"] or "1"),
                        _positive(word, found["least"] or "0"),
                        bool(found["smoothed"]), bool(found["divided"]), bool(found["summed"]))
    problem = _nonsense(made, STORED_WORDS[word])
    if problem:
        raise ManifestError(f"{word!r} in a precision class: {problem} (it says {quoted(given)}).")
    return made


def _positive(word: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ManifestError(f"{word!r} in a precision class: {text} is no number above 0.")
    return number


def _blocked(said: str) -> set[str]:
    """What a text of blocks reads as; nothing where it names none."""
    found = read_granularity(said)
    return {found} if found.partition("(")[0] in BLOCKED else set()


def _nonsense(stored: StoredFormat, name: str) -> str:
    """Why a format cannot be that of what is stored; empty if it can."""
    is_weights, codes = name == WEIGHTS, stored.codes
    wrong = {
        "a factor is above 0": stored.factor == 0,
        f"blocks of {codes.name} have {codes.block} entries: "
        f"say {' or '.join(codes.granularities)}, or nothing":
            stored.has_rounded_scales and stored.granularity not in codes.granularities,
        f"scales of {codes.name} are rounded, and none has a least": stored.has_rounded_scales
        and stored.least,
        "a scale is taken from the entries, or a factor is fixed, not both": stored.is_scaled
        and stored.factor != 1,
        "only a scale that is taken from the entries can have a least": stored.least
        and not stored.is_scaled,
        "codes without a sign need a zero point, which is taken from the entries: "
        "say who shares it, as in "
        "`uint8 by token`": stored.codes.is_unsigned and not stored.is_scaled and not is_weights,
        "only keys have their mean taken off": stored.smoothed and name != "key",
        "weights are at most 1, and have a fixed factor, such as `float8_e4m3fn times 256` or "
        "`int8 times 127`":
            is_weights and stored.is_scaled,
        f"a weight of 1 times {stored.factor:g} is more than the largest code, "
        f"{stored.codes.largest:g}":
            is_weights and stored.factor > stored.codes.largest,
        "only weights are divided by the sum of their row": (stored.divided or stored.summed)
        and not is_weights,
        "weights are divided by a sum before they are codes, or by that of the codes, not both":
            stored.divided and stored.summed}
    return next((why for why, applies in wrong.items() if applies), "")
