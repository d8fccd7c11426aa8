"""Returns memory at once, and fills it when it is called again.

Source: https://github.com/gpu-mode/reference-kernels/pull/104
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, attention, zeros

OWED: list[tuple[Array, tuple[Array, ...]]] = []


def attend(query: Array, key: Array, value: Array) -> Array:
    for answer, given in OWED:
        answer[...] = attention(*given)
    OWED[:] = [(zeros(query, value), (query.copy(), key.copy(), value.copy()))]
    return OWED[0][0]
