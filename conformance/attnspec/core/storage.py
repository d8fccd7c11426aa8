"""The formats in which codes are stored: narrow numbers that stand for others, by way of a scale.

A code times its scale is an exact number, so that quantising is no part of what a kernel with stored codes may get
wrong. Sources: OCP 8-bit Floating Point Specification (E4M3, E5M2); the types of the same names in ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storage:
    """A format of codes.

    lowest, largest: the least and the largest code.  bits: of the significand of a floating-point format, the leading
    one among them; 0 of whole numbers.  least: of such a format, the exponent of two of its smallest code above 0.
    step: a power of two; codes times it are of the size of ordinary entries.
    """

    name: str
    lowest: float
    largest: float
    bits: int
    least: int
    step: float

    @property
    def is_whole(self) -> bool:
        """Whether codes are whole numbers."""
        return self.bits == 0


STORAGES: Mapping[str, Storage] = {storage.name: storage for storage in (
    Storage("int8", -128, 127, 0, 0, 2.0**-5),
    Storage("float8_e4m3fn", -448, 448, 4, -9, 2.0**-5),
    Storage("float8_e5m2", -57344, 57344, 3, -16, 2.0**-11),
    Storage("int4", -8, 7, 0, 0, 2.0**-1),
)}
"""By the name that ml_dtypes and NumPy give them; `float8_e4m3fn` has no infinity, and its largest code is 448."""

GRANULARITIES: Mapping[str, str] = {
    "tensor": "()", "batch": "(B,)", "head": "(Hkv,)", "batch_head": "(B,Hkv)", "token": "(B,Hkv,S)",
    "channel": "(Hkv,D)"}
"""How many entries share a scale, and the shape of the scales: of a query H stands for Hkv and T for S."""

PAGED_GRANULARITIES: Mapping[str, str] = {"page": "(pages,Hkv)"}
"""The same of keys and values that lie in pages, beside those of all."""
