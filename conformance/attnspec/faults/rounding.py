"""Roundings through narrower formats, for faults that store something too coarsely."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from attnspec.problems.problem import Array

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


def through(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array after a round trip through a narrower dtype, in its own dtype."""
    return array.astype(dtype).astype(array.dtype)


def tf32(array: Array) -> Array:
    """Mantissas cut to the ten bits that TF32 tensor cores keep, in the array's own dtype."""
    bits = array.astype(np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(array.dtype)


def levels(array: Array, count: int = 127) -> Array:
    """Symmetric integer quantisation of the whole tensor to `count` levels a side."""
    step = np.abs(array).max(initial=0) / count
    return array if step == 0 or not np.isfinite(step) else np.rint(array / step) * step


def running_sum(terms: Array, dtype: np.dtype[Any]) -> Array:
    """Sum over the last axis, kept, with the accumulator stored in `dtype` after each addition."""
    total = np.zeros(terms.shape[:-1], terms.dtype)
    for position in range(terms.shape[-1]):
        total = through(total + terms[..., position], dtype)
    return total[..., None]
