"""Declares that it takes only problems larger than any that is put.

Refused: no problem that is put is larger.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value)


attend.min_scores = 10**12  # type: ignore[attr-defined]  # how a function declares it
