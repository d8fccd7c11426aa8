"""Declares that it takes only problems larger than any that is put.

Refused: should be a whole number from 1 to 1000000.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value)


attend.min_scores = 10**12  # type: ignore[attr-defined]  # how a function declares it
