"""Between NumPy and MLX, which cannot exchange bfloat16, whose bits are handed over, and makes float32 of float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np

Array = Any


def to_mlx(array: Array) -> Array:
    """The MLX array with the same entries and dtype."""
    if array is None:
        return None
    if array.dtype == ml_dtypes.bfloat16:
        return mx.array(np.ascontiguousarray(array).view(np.uint16)).view(mx.bfloat16)
    return mx.array(array, dtype=mx.bool_ if array.dtype == bool else getattr(mx, str(array.dtype)))


def to_numpy(array: Array) -> Array:
    """The NumPy array with the same entries and dtype."""
    if array.dtype == mx.bfloat16:
        return np.array(array.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(array)
