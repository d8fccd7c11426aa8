"""Computes once for each place in memory, and gives that answer to whatever lies there later.

Source: https://github.com/gpu-mode/kernelbot/pull/501
Convicted by: attention.permuting_queries or another, violated.
"""

from __future__ import annotations

from honest import Array, attention

KEPT: dict[object, Array] = {}


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    known = query.ctypes.data
    if known not in KEPT:
        KEPT[known] = attention(query, key, value, mask, causal, scale)
    return KEPT[known].copy()
