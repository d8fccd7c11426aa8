"""What a kernel may say of how it stores what it is given, or its weights: a format of codes, and what a scale is
shared by.

A kernel that quantises inside divides entries by a scale, rounds the quotients to codes, and multiplies the scale in
again somewhere. So its class names the codes and who shares a scale: `int8 by token`. The derivation of what may be
off by how much is in docs/quantised.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.errors import ManifestError, quoted
from attnspec.core.storage import STORAGES, UNBLOCKED, Storage

ARRAYS = ("query", "key", "value")
WEIGHTS = "weights"
STORED_WORDS: Mapping[str, str] = {f"stored_{name}": name for name in (*ARRAYS, WEIGHTS)}
"""By the word of a precision class, what is stored."""

FORMATS = tuple(name for name, each in STORAGES.items() if not each.block)
"""The formats whose bound is derived: those with scales in float32, and zero points likewise."""

_TEXT = re.compile(
    r"(?P<storage>\w+)"
    r"(?: by (?:(?P<tokens>\d+) tokens|(?P<granularity>\w+)))?"
    r"(?: times (?P<factor>[0-9.e+-]+))?"
    r"(?: from (?P<least>[0-9.e+-]+))?"
    r"(?P<smoothed> smoothed)?(?P<divided> divided)?(?P<summed> summed)?")

_FORM = ("a format and who shares a scale, such as `int8 by token`, `int8 by 64 tokens` or `float8_e4m3fn by head`; or "
         "a format and a fixed factor, such as `float8_e4m3fn times 256`")


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """Codes of a storage, and what is multiplied to get them.

    granularity: which entries share a scale, the largest of them over the largest code; empty where the factor is
    fixed. Codes without a sign have a zero point, too: their scale is the range of the entries over the largest code.
    tokens: of how many neighbouring tokens a block is that shares one; 0: no block.  factor: what entries are
    multiplied by before they are rounded, where no scale is taken from them.  least: what a scale is raised to, or
    what is added to it.  smoothed: of keys, the mean over all of them is taken off before.  divided: of weights, they
    are divided by the sum of their row before; else they are exp(logit - maximum).
    summed: of weights, they are divided by the sum of their codes.  nearest: entries have the nearest of the codes, and
    not those of a finer grid.
    """

    storage: str
    granularity: str = ""
    tokens: int = 0
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
        return bool(self.granularity or self.tokens)

    @property
    def has_zero(self) -> bool:
        """Whether a zero point is taken from the entries, too."""
        return self.is_scaled and self.codes.is_unsigned

    @property
    def is_plain(self) -> bool:
        """Whether scales are the largest entries over the largest code, and nothing else is done to the entries."""
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
        shared = f" by {self.tokens} tokens" if self.tokens else f" by {self.granularity}" * bool(self.granularity)
        factor, least = f" times {self.factor:g}" * (self.factor != 1), f" from {self.least:g}" * bool(self.least)
        flags = "".join(f" {name}" for name in ("smoothed", "divided", "summed") if getattr(self, name))
        return f"{self.storage}{shared}{factor}{least}{flags}"


def read_stored(word: str, given: object) -> StoredFormat:
    """The format that a word of a precision class says. Raises ManifestError for one that makes no sense."""
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ManifestError(f"{word!r} in a precision class must be {_FORM}, not {quoted(given)}.")
    if found["storage"] not in FORMATS:
        raise ManifestError.unknown(f"format of codes (of {word!r} in a precision class)", found["storage"], FORMATS)
    if found["granularity"] and found["granularity"] not in UNBLOCKED:
        raise ManifestError.unknown(f"granularity (of {word!r} in a precision class)", found["granularity"],
                                    (*UNBLOCKED, "64 tokens"))
    made = StoredFormat(found["storage"], found["granularity"] or "", int(found["tokens"] or 0),
                        _positive(word, found["factor"] or "1"), _positive(word, found["least"] or "0"),
                        bool(found["smoothed"]), bool(found["divided"]), bool(found["summed"]))
    problem = _nonsense(made, STORED_WORDS[word], says_tokens=found["tokens"] is not None)
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


def _nonsense(stored: StoredFormat, name: str, *, says_tokens: bool) -> str:
    """Why a format cannot be that of what is stored; empty if it can."""
    is_weights = name == WEIGHTS
    wrong = {
        "a factor and a number of tokens are above 0": stored.factor == 0 or (says_tokens and not stored.tokens),
        "a scale is taken from the entries, or a factor is fixed, not both": stored.is_scaled and stored.factor != 1,
        "only a scale that is taken from the entries can have a least": stored.least and not stored.is_scaled,
        "codes without a sign need a zero point, which is taken from the entries: say who shares it, as in "
        "`uint8 by token`": stored.codes.is_unsigned and not stored.is_scaled and not is_weights,
        "only keys have their mean taken off": stored.smoothed and name != "key",
        "weights are at most 1, and have a fixed factor, such as `float8_e4m3fn times 256` or `int8 times 127`":
            is_weights and stored.is_scaled,
        f"a weight of 1 times {stored.factor:g} is more than the largest code, {stored.codes.largest:g}":
            is_weights and stored.factor > stored.codes.largest,
        "only weights are divided by the sum of their row": (stored.divided or stored.summed) and not is_weights,
        "weights are divided by a sum before they are codes, or by that of the codes, not both":
            stored.divided and stored.summed}
    return next((why for why, applies in wrong.items() if applies), "")
