"""Digests of arrays, equal if and only if every bit is; the padding of a long double is no part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = 16
"""Hexadecimal digits that are kept: 64 bits."""


def digest(named: Mapping[str, object]) -> str:
    """The digest of values by name, whatever their order."""
    whole = hashlib.sha256()
    for name in sorted(named):
        whole.update(f"{name}={_spelled(named[name])};".encode())
    return whole.hexdigest()[:LENGTH]


def digest_of_lines(lines: Iterable[str]) -> str:
    """The digest of a text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:LENGTH]


def _spelled(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{value.shape}{hashlib.sha256(_bytes(value)).hexdigest()}"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _bytes(array: NDArray[Any]) -> bytes:
    if array.dtype == np.longdouble:
        with np.errstate(invalid="ignore", over="ignore"):
            high = array.astype(np.float64)
            low = np.where(np.isfinite(high), array - high, 0).astype(np.float64)
        return _one_nan(high).tobytes() + low.tobytes()
    return _one_nan(array).tobytes()


def _one_nan(array: NDArray[Any]) -> NDArray[Any]:
    """Which of the many bit patterns for "not a number" it is depends on the processor, and means nothing."""
    if array.dtype.kind not in "fV" or array.dtype.names:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(np.where(np.isnan(array), np.array(np.nan, array.dtype), array))
