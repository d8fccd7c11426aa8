"""A problem in blocks of batch entries, heads and queries that stay in the cache, and their results put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.keywords import AXES, CACHED
from attnspec.numerics.aspect import extra_key
from attnspec.numerics.extra_key import with_extra_key
from attnspec.numerics.operands import Operands, key_heads, keys_of, operands_of
from attnspec.problems.problem import Array, Problem

BATCH_AT_ONCE = 2**16
"""Entries of key and value of as many batch entries as go together: many small ones cost no more than one large one."""

KEYS_AT_ONCE = 2**21
"""Entries of key and value of as many heads as go together."""

LOGITS_AT_ONCE = 2**18
"""Logits (B·H·T·S) of a block. No intermediate has more entries, but where one row or one head's keys alone do."""

BlockSlices = tuple[slice, slice, slice]
"""Where a block lies along the axes B, H and T of the whole."""


@dataclass(frozen=True, slots=True, eq=False)
class ProblemBlock:
    """A block of a problem, ready for the definition, and its place in (B,H,T,…)."""

    place: BlockSlices
    operands: Operands


def blocks(problem: Problem, conventions: Mapping[str, str], scale_width: int | None = None,
           rows: Array | None = None) -> Iterator[ProblemBlock]:
    """All of a problem (None), or its `rows` along T, block by block, each with its place in (B,H,T,…)."""
    sizes = problem.sizes
    every = np.arange(sizes.T) if rows is None else rows
    T = len(every)
    for batch in _steps(sizes.B, _batch_step(problem, T)):
        entries = problem if batch == slice(0, sizes.B) else _of_batch(problem, batch)
        for heads in _steps(sizes.H, _head_step(entries, T)):
            part = entries if heads == slice(0, sizes.H) else _of_heads(entries, heads, conventions)
            keys = keys_of(part, conventions)
            for queries in _steps(T, _row_step(part, T)):
                chosen = rows if queries == slice(0, T) else every[queries]
                place, operands = (batch, heads, queries), operands_of(part, conventions, scale_width, chosen, keys)
                extra = extra_key(part)
                yield ProblemBlock(place, operands if extra is None else with_extra_key(operands, extra))


def _steps(length: int, step: int) -> Iterator[slice]:
    """Slices of `step`, and of what is left, that cover a length; an empty one for a length of 0."""
    return (slice(start, min(start + step, length)) for start in range(0, max(1, length), step))


def _batch_step(problem: Problem, T: int) -> int:
    """How many batch entries go together."""
    sizes, size = problem.sizes, problem.key.size + problem.value.size
    together = sizes.B if size <= BATCH_AT_ONCE else BATCH_AT_ONCE * sizes.B // size
    return max(1, min(together, LOGITS_AT_ONCE // max(1, sizes.H * T * sizes.S)))


def _head_step(problem: Problem, T: int) -> int:
    """How many heads go together, of as many batch entries as the problem has."""
    sizes = problem.sizes
    keys = sizes.B * sizes.S * (sizes.D + sizes.Dv)
    together = min(LOGITS_AT_ONCE // max(1, sizes.B * T * sizes.S), KEYS_AT_ONCE // max(1, keys))
    return max(1, min(together, sizes.H))


def _row_step(problem: Problem, T: int) -> int:
    """How many queries go together, of as many heads as the problem has; blocks are as even as can be."""
    sizes = problem.sizes
    together = max(1, LOGITS_AT_ONCE // max(1, sizes.B * sizes.H * sizes.S))
    return max(1, -(-T // max(1, -(-T // together))))


def _of_batch(problem: Problem, batch: slice) -> Problem:
    """Some batch entries."""
    return problem.but(query=problem.query[batch], key=problem.key[batch], value=problem.value[batch],
                       **_of_keywords(problem, "B", batch))


def _of_caches(problem: Problem, heads: slice | Array) -> dict[str, Array | None]:
    """Some heads of the past keys and values (B,Hkv,P,·), where there are any; heads (H,): an index of each."""
    arrays = {name: getattr(problem, name) for name in CACHED}
    return {name: None if array is None else array[:, heads] for name, array in arrays.items()}


def _of_heads(problem: Problem, heads: slice, conventions: Mapping[str, str]) -> Problem:
    """Some query heads, each with a key/value head to itself."""
    own = key_heads(problem, conventions)
    chosen = heads if own is None else own[heads]
    return problem.but(query=problem.query[:, heads], key=problem.key[:, chosen], value=problem.value[:, chosen],
                       **{**_of_keywords(problem, "H", heads), **_of_caches(problem, chosen)})


def _of_keywords(problem: Problem, axis: str, some: slice) -> dict[str, Array | None]:
    """The arrays of keywords that have an axis of (B,H,T,S), with a part of it."""
    return {name: _along(getattr(problem, name), len(axes) - axes.index(axis), some)
            for name, axes in AXES.items() if axis in axes}


def _along(array: Array | None, from_last: int, some: slice) -> Array | None:
    """Part of an axis, counted from the last, of a mask or bias (B,H,T,S) or broadcast to it, or of lengths (B,); one
    that all share is handed on whole.
    """
    if array is None or array.ndim < from_last or array.shape[-from_last] == 1:
        return array
    return array[(slice(None),) * (array.ndim - from_last) + (some,)]


def joined(shape: tuple[int, int, int],
           found: Iterator[tuple[BlockSlices, Mapping[str, Array]]]) -> Mapping[str, Array]:
    """Arrays of one block each, by name, put together to (B,H,T,…); `shape` is (B,H,T). Those without any axis longer
    than 0 stand for what was not asked for, and stay as they are.
    """
    whole: dict[str, Array] = {}
    for place, arrays in found:
        if tuple(each.stop - each.start for each in place) == shape:
            return arrays
        for name, array in arrays.items():
            if name not in whole:
                is_all = not any(array.shape)
                whole[name] = array if is_all else np.empty((*shape, *array.shape[3:]), array.dtype)
            if whole[name] is not array and any(array.shape):
                whole[name][place] = array
    return whole
