"""Other ways for the same array to lie in memory."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array


def with_gaps(array: Array) -> Array:
    """The array, of any shape, as every other entry, along every axis, of a memory twice as long."""
    memory = np.zeros([2 * length for length in array.shape], array.dtype)
    view = memory[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def heads_last(array: Array) -> Array:
    """(B,H,T,D) and its like as a view of memory that lies (B,T,H,D)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
