"""Declares a coarse class of arithmetic, and gives no reason.

Refused: the precision of 'float32' needs 'reason'.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value)


attend.precision = {"float32": {"accumulate": "float16", "exp_ulps": 1e9}}  # type: ignore[attr-defined]  # how a function declares it
