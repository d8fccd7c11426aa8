"""Whether a framework, on this machine, takes subnormal numbers for 0: asked of it, for no document says so for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.ground.declaration import Declaration
from attnspec.ground.nouns import DType
from attnspec.numerics.units import unit
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.subjects.lifts.lift import Lift

_HEADS, _ROWS, _COLUMNS = 6, 17, 16
"""Batched and of several heads: kernels for bfloat16 that flush take over only at such sizes."""

OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "a product": lambda tiny, halves: tiny * halves,
    "a matrix product": lambda tiny, halves: tiny.swapaxes(-1, -2) @ halves,
}


def with_flushing(declaration: Declaration, lift: Lift) -> Declaration:
    """The declaration, with what the lift's framework does on this machine where it says nothing of subnormals."""
    precision = dict(declaration.precision)
    for dtype in declaration.dtypes:
        said = precision.get(dtype, {})
        if "flushes_subnormals" not in said and (operation := flushed_by(lift, dtype)):
            reason = f"here {declaration.lift} takes subnormal numbers for 0 in {operation}"
            precision[dtype] = {"flushes_subnormals": True, "reason": reason, **said}
    return replace(declaration, precision=precision)


def flushed_by(lift: Lift, dtype: DType) -> str:
    """The first operation whose result, half of the smallest normal number, comes back as 0; empty if none does."""
    shape = _HEADS, _ROWS, _COLUMNS
    smallest = np.full(shape, unit(dtype).normal).astype(numpy_dtype(dtype))
    halves = np.broadcast_to(np.eye(_ROWS, _COLUMNS) / 2, shape).astype(numpy_dtype(dtype))
    with lift.around(dtype):
        for name, operation in OPERATIONS.items():
            if _vanishes(lift.read(operation(lift.hand(smallest), lift.hand(halves)))):
                return name
    return ""


def _vanishes(array: Array) -> bool:
    return not np.any(np.asarray(array, np.float64))
