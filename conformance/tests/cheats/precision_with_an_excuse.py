"""Declares arithmetic so coarse that anything might pass, and calls it honest.

Convicted by: attention.definition, violated, at effort quick.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value)


COARSE = {"accumulate": "float16", "softmax": "float16", "exp_ulps": 1e6, "reason": "the hardware has no more"}
attend.precision = {"float32": COARSE}  # type: ignore[attr-defined]  # how a function declares it
