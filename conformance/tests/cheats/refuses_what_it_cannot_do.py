"""Refuses in plain words whatever is not the one problem that it knows.

Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    if query.shape != key.shape or key.shape != value.shape:
        raise ValueError("query, key and value must have one shape")
    return zeros(query, value)
