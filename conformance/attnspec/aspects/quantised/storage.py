"""Storages are the formats of codes, narrow numbers that stand for others by way of a scale.

A code times its scale is an exact number, so that quantising is no part of what a kernel with
stored codes may get wrong. Sources: OCP 8-bit Floating Point Specification (E4M3, E5M2); OCP
Microscaling Formats (MXFP8, MXFP4: E8M0 scales of 32 neighbours); NVFP4 (E4M3 scales of 16, and
one of float32); the types of the same names in ml_dtypes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storage:
    """A format of codes.

    lowest, largest: the least and the largest code.
    bits: those of a floating-point significand, with the leading one; 0 of whole numbers.
    least: the exponent of two of the smallest code above 0 of a floating-point format.
    step: a power of two; codes times it are of the size of ordinary entries.
    codes: the type of the codes, where it has another name.  scales: the type of the scales.
    block: how many neighbours share a scale, where the format defines it; else 0.
    """

    name: str
    lowest: float
    largest: float
    bits: int
    least: int
    step: float
    codes: str = ""
    scales: str = "float32"
    block: int = 0

    @property
    def code_type(self) -> str:
        """The type of the codes, by the name that ml_dtypes and NumPy give it."""
        return self.codes or self.name

    @property
    def is_nibble(self) -> bool:
        """Whether a code has four bits, so that two share a byte where they are packed."""
        return self.code_type in {"int4", "uint4", "float4_e2m1fn"}

    @property
    def has_nan(self) -> bool:
        """Whether there is a code of NaN: whole numbers have none, and E2M1 has none."""
        return self.bits > 2

    @property
    def granularities(self) -> tuple[str, ...]:
        """The granularities of scales; a format of blocks has them along either axis."""
        if not self.block:
            return tuple(GRANULARITIES)
        return f"block({self.block})", f"channel_tokens({self.block})"

    @property
    def usual_granularity(self) -> str:
        """The granularity by the format's definition; empty where it defines none."""
        return self.granularities[0] if self.block else ""

    @property
    def has_power_scales(self) -> bool:
        """Whether scales are powers of two."""
        return self.scales == "float8_e8m0fnu"

    @property
    def has_narrow_scales(self) -> bool:
        """Whether scales are narrow numbers themselves, so that the array has a second one."""
        return self.scales == "float8_e4m3fn"

    @property
    def takes_zero_points(self) -> bool:
        """Whether codes may have zero points: formats that define blocks (OCP Microscaling Formats
        1.0, section 5; NVFP4) have numbers of either sign, and know scales alone.
        """
        return not self.block

    @property
    def is_whole(self) -> bool:
        """Whether codes are whole numbers."""
        return self.bits == 0

    @property
    def is_unsigned(self) -> bool:
        """Whether no code is negative: numbers of either sign need a zero point."""
        return self.lowest == 0

    @property
    def middle(self) -> float:
        """The code about which the others lie: half of the range of unsigned ones, else 0."""
        return (self.largest + 1) / 2 if self.is_unsigned else 0.0


STORAGES: Mapping[str, Storage] = {storage.name: storage for storage in (
    Storage("int8", -128, 127, 0, 0, 2.0**-5),
    Storage("float8_e4m3fn", -448, 448, 4, -9, 2.0**-5),
    Storage("float8_e5m2", -57344, 57344, 3, -16, 2.0**-11),
    Storage("int4", -8, 7, 0, 0, 2.0**-1),
    Storage("uint8", 0, 255, 0, 0, 2.0**-5),
    Storage("uint4", 0, 15, 0, 0, 2.0**-1),
    Storage("mxfp8", -448, 448, 4, -9, 2.0**-5, "float8_e4m3fn", "float8_e8m0fnu", 32),
    Storage("mxfp4", -6, 6, 2, -1, 2.0**-1, "float4_e2m1fn", "float8_e8m0fnu", 32),
    Storage("nvfp4", -6, 6, 2, -1, 2.0**-1, "float4_e2m1fn", "float8_e4m3fn", 16),
)}
"""By the name that ml_dtypes and NumPy give them, or their makers; `float8_e4m3fn` has no
infinity, and its largest code is 448.
"""

BLOCKS = (16, 32, 64, 128)
"""The lengths of blocks that share a scale."""

UNBLOCKED: Mapping[str, str] = {
    "tensor": "()", "batch": "(B,)", "head": "(Hkv,)", "batch_head": "(B,Hkv)", "token": "(B,Hkv,S)",
    "channel": "(Hkv,D)"}
BLOCKED: Mapping[str, str] = {
    "block": "(B,Hkv,S,D/N)", "tokens": "(B,Hkv,S/N)", "channel_tokens": "(B,Hkv,S/N,D)"}

GRANULARITIES: Mapping[str, str] = {
    **UNBLOCKED,
    **{f"{name}({length})": shape.replace("N", str(length)) for name, shape in BLOCKED.items() for length in BLOCKS}}
"""By granularity, which says how many entries share a scale, the shape of the scales; of a query H
stands for Hkv and T for S. `block(16)` is 16 neighbouring features of a token, `tokens(16)` as
many tokens of a head, `channel_tokens(16)` as many tokens of a feature; a last block that is not
full has a scale, too, so that lengths are divided upwards.
"""

PAGED_GRANULARITIES: Mapping[str, str] = {"page": "(pages,Hkv)"}
"""The same of keys and values that lie in pages, beside those of all."""

ZERO_FORMATS = ("float32", "codes")
"""The formats of zero points: numbers, which need not be whole, or that of their codes."""

LAYOUTS: Mapping[str, str] = {
    "low_first": "neighbouring features share a byte, the first in its low nibble",
    "high_first": "neighbouring features share a byte, the first in its high nibble",
    "low_first_tokens": "neighbouring tokens share a byte, the first in its low nibble",
    "high_first_tokens": "neighbouring tokens share a byte, the first in its high nibble",
    "halves": "the first half of the features is in the low nibbles, the second half in the high ones",
}
"""The layouts of two four-bit codes in a byte; of an odd number the last nibble is 0."""


def is_along_tokens(layout: str) -> bool:
    """Whether a layout packs neighbouring tokens, not features."""
    return layout.endswith("_tokens")


_WHOLE_AXES: Mapping[str, Mapping[int, int]] = {
    "tensor": {}, "batch": {0: 1}, "head": {1: 1}, "batch_head": {0: 1, 1: 1}, "token": {0: 1, 1: 1, 2: 1},
    "channel": {1: 1, 3: 1}, "page": {0: 1, 1: 1, 2: 1}}
_BLOCK_AXIS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "block": (3, (0, 1, 2)), "tokens": (2, (0, 1)), "channel_tokens": (2, (0, 1, 3))}
"""By what blocks are of, the axis that they cut, and the others along which scales differ."""

_GRANULARITY = re.compile(r"(?P<tokens>\d+) tokens|(?P<name>\w+?)(?:\((?P<length>\d+)\))?", re.ASCII)


def read_granularity(text: str) -> str:
    """Read the granularity that a text names: `head`, or `tokens(64)` with any length, for which
    `64 tokens` stands, too. Empty if it names none.
    """
    found = _GRANULARITY.fullmatch(text)
    if found is None:
        return ""
    name, length = ("tokens", found["tokens"]) if found["tokens"] else (found["name"], found["length"])
    if length is None:
        return name if name in _WHOLE_AXES else ""
    return f"{name}({int(length)})" if name in BLOCKED and int(length) else ""


def scale_axes(granularity: str) -> Mapping[int, int]:
    """Return the axes of (B,H,S,D) along which scales differ, each with how many neighbours share
    one. How many tokens of a page do is a matter of the pages.
    """
    if granularity in _WHOLE_AXES:
        return _WHOLE_AXES[granularity]
    name, _, length = granularity.removesuffix(")").partition("(")
    axis, others = _BLOCK_AXIS[name]
    return dict(sorted({axis: int(length), **dict.fromkeys(others, 1)}.items()))


SCALE_AXES: Mapping[str, Mapping[int, int]] = {
    granularity: scale_axes(granularity) for granularity in (*GRANULARITIES, *PAGED_GRANULARITIES)}
"""The same by granularity, of scales that are handed over."""
