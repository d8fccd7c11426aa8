"""Whether a framework, on this machine, takes subnormal numbers for 0."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

import numpy as np

from ..frames import Entries

SHAPE = 6, 17, 16
"""Batched and of several heads: kernels for bfloat16 that flush take over only at such sizes."""

SMALLEST = {"float64": 2.0 ** -1022, "float32": 2.0 ** -126, "bfloat16": 2.0 ** -126, "float16": 2.0 ** -14}
"""The smallest normal number of each dtype (IEEE 754)."""

OPERATIONS: Sequence[Tuple[str, Callable[[Any, Any], Any]]] = (
    ("a product", lambda tiny, halves: tiny * halves),
    ("a matrix product", lambda tiny, halves: tiny.swapaxes(-1, -2) @ halves))


def flushed_by(lift: Any, dtype: str) -> str:
    """The first operation whose result, half of the smallest normal number, comes back as 0; empty if none does."""
    smallest = entries(np.full(SHAPE, SMALLEST[dtype]), dtype)
    halves = entries(np.broadcast_to(np.eye(*SHAPE[1:]) / 2, SHAPE), dtype)
    with lift.around(dtype):
        for name, operation in OPERATIONS:
            if _is_lost(operation, lift, lift.hand(smallest), lift.hand(halves)):
                return name
    return ""


def _is_lost(operation: Callable[[Any, Any], Any], lift: Any, tiny: Any, halves: Any) -> bool:
    """Whether nothing but 0 comes back, of two tensors of SHAPE. A framework that has no such
    operation in the dtype (PyTorch 2.0: no matrix product in float16) loses nothing in it.
    """
    try:
        found = operation(tiny, halves)
        lift.wait(found)
        return not np.any(float64(lift.read(found)))
    except Exception:  # whatever a framework says to that
        return False


def entries(array: Any, dtype: str) -> Entries:
    """Numbers that the dtype holds exactly, of any shape, in it."""
    if dtype != "bfloat16":
        return Entries(dtype, np.array(array, dtype))
    return Entries(dtype, (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16))


def float64(found: Entries) -> Any:
    """What stands in an array of any shape, as numbers of float64."""
    if found.dtype != "bfloat16":
        return found.array.astype(np.float64)
    bits = found.array.astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64)
