"""What a lift is, the one that does nothing, and whether a framework flushes subnormals on this machine."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType
from attnspec.numerics.precision import unit
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.subjects.lifts import LIFTS


class Lift(Protocol):
    """Between NumPy and a framework."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:
        """What must be set while arrays of this dtype are handed over, computed with and read."""

    def hand(self, array: Array) -> object:
        """The framework's array with the same entries, of any shape, dtype and, where it can, memory and strides."""

    def read(self, value: object) -> Array:
        """The NumPy array with the same entries, of any shape. Raises TypeError or ValueError for what is no array."""

    def gradients(self, function: Callable[..., object], inputs: Sequence[object],
                  rows: Array) -> tuple[object, tuple[Array, ...] | None]:
        """What the function makes of the inputs, and the gradient of the sum of those rows of it (the last axis but
        one) that are True in `rows` (T,) with respect to each input, as (B,H,T,D); None where there is no gradient.
        """

    def forget(self) -> None:
        """Give back what the framework has kept of the calls so far, such as programs compiled for their shapes."""


class NoLift:
    """NumPy in; anything that `np.asarray` reads out."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:  # noqa: ARG002  (the protocol's)
        """Nothing is set."""
        return contextlib.nullcontext()

    def hand(self, array: Array) -> Array:
        """The array itself, of any shape."""
        return array

    def read(self, value: object) -> Array:
        """What `np.asarray` makes of it, any shape; a PyTorch tensor is read by its lift, also in bfloat16 or with
        gradient.
        """
        torch = sys.modules.get("torch")  # not imported: then it cannot be a tensor
        if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
            return lift_named("torch").read(value)
        return np.asarray(value)

    def gradients(self, function: Callable[..., object], inputs: Sequence[object],
                  rows: Array) -> tuple[object, tuple[Array, ...] | None]:  # noqa: ARG002  (the protocol's)
        """What the function makes of the inputs, (B,H,T,D) and the like; NumPy has no gradients."""
        return function(*inputs), None

    def forget(self) -> None:
        """Nothing was kept."""


def lift_named(name: str) -> Lift:
    """The lift `torch` or `jax`, or for "" the one that does nothing. Raises UsageError; TargetError: not installed."""
    if not name:
        return NoLift()
    if name not in LIFTS:
        raise UsageError.unknown("lift", name, LIFTS)
    try:
        return _imported(name)
    except ImportError as cause:
        raise TargetError(f"the lift {name!r} needs {name}, which cannot be imported ({cause}). "
                          f"Install it: pip install {name}") from None


def _imported(name: str) -> Lift:
    module, _, lift = LIFTS[name].partition(":")
    return cast(Lift, getattr(importlib.import_module(module), lift)())


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
    """Whether every entry of an array of any shape is 0, as float64 sees it."""
    return not np.any(np.asarray(array, np.float64))
