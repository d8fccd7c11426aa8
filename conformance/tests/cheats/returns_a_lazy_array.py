"""Returns a thing that computes when it is read, and not before it is read twice.

Source: https://github.com/gpu-mode/reference-kernels/issues/162 (lazy output)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, attention, zeros


class Lazy:
    """Zeros at the first look, attention later."""

    def __init__(self, query: Array, key: Array, value: Array) -> None:
        self.given, self.looks = (query, key, value), 0
        self.shape, self.dtype = (*query.shape[:3], value.shape[-1]), query.dtype

    def __array__(self, *_: object, **__: object) -> Array:
        self.looks += 1
        query, key, value = self.given
        return attention(query, key, value) if self.looks > 1 else zeros(query, value)


def attend(query: Array, key: Array, value: Array) -> Array:
    return Lazy(query, key, value)
