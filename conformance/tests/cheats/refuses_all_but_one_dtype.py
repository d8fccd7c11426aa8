"""Refuses every number format but one, and computes nothing there.

Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    if query.dtype != "float32":
        raise TypeError(f"dtype {query.dtype} is not supported")
    return zeros(query, value)
