"""What transforms have in common: entries taken along an axis, and arithmetic that must be exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from attnspec.ground.keywords import AXES
from attnspec.ground.nouns import DType
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.vocabulary.posed import NoClaim, Posed

Attention = Posed[Problem]
ArrayName = Literal["query", "key", "value"]
_AXES: Mapping[str, tuple[str, ...]] = {
    "query": ("B", "H", "T", "D"), "key": ("B", "H", "S", "D"), "value": ("B", "H", "S", "Dv"),
    **{name: tuple(axes) for name, axes in AXES.items()}}
ARRAYS = tuple(_AXES)
"""Every field of a problem that may be an array."""


def permutation(seed: int, length: int) -> Array:
    """A permutation of 0 … length - 1; NumPy has frozen the stream of RandomState."""
    return np.random.RandomState(seed).permutation(length)


def taken(array: Array | None, index: Array, axis: int) -> Array | None:
    """The entries at these places along an axis; None stays None."""
    return None if array is None else np.ascontiguousarray(np.take(array, index, axis=axis))


def entries_along(problem: Problem, axis: str, index: Array) -> dict[str, Array]:
    """Every array of the problem that has an axis of (B,H,T,S), with the entries at these places; H where Hkv is H."""
    return {name: np.ascontiguousarray(np.take(array, index, axis=axes.index(axis)))
            for name, axes in _AXES.items() if axis in axes and (array := getattr(problem, name)) is not None}


def product(array: Array, by: float, dtype: DType) -> Array:
    """The array times a power of two. Raises NoClaim where that is not exact in the dtype."""
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        result = wide * by
        is_exact = abs(np.frexp(by)[0]) == 0.5 and np.array_equal(result / by, wide)
    return _stored(result, dtype, is_exact=is_exact)


def shifted(array: Array, by: float, dtype: DType) -> Array:
    """The array plus a number. Raises NoClaim where that is not exact in the dtype.

    A sum is exact where both summands come back by subtraction (Knuth's TwoSum).
    """
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        result = wide + by
        is_exact = np.array_equal(result - by, wide) and bool((result - wide == by).all())
    return _stored(result, dtype, is_exact=is_exact)


def _stored(wide: Array, dtype: DType, *, is_exact: bool) -> Array:
    with np.errstate(over="ignore"):
        array = wide.astype(numpy_dtype(dtype))
    if not is_exact or not np.array_equal(array.astype(np.float64), wide):
        raise NoClaim("the change is not exact in the dtype")
    return array


def score_shape(problem: Problem) -> tuple[int, int, int, int]:
    """(B,H,T,S), the full shape of a mask or bias."""
    size = problem.sizes
    return size.B, size.H, size.T, size.S
