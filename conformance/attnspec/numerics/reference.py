"""Computes attention by its definition, wider than any subject does, in blocks that fit the cache.

Subjects of float64 are met with long double where the platform's is wider, all others with
float64. Nothing here is told how a subject computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.keywords import AXES, CACHED
from attnspec.core.nouns import DType
from attnspec.numerics.operands import Operands, add_extra_key, extra_key, key_heads, prepare_keys, prepare_operands
from attnspec.problems.problem import Array, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """Attention by definition, step by step.

    (B,H,T,S): dots = query·key; bent_dots = scale·dots, bent where an aspect bends them; logits =
    bent_dots + bias; shifted_logits = logits less the row's largest attended one (hidden keys keep
    theirs); weights = exp(shifted_logits), 0 where hidden. total (B,H,T): the sum of the weights.
    output (B,H,T,Dv).
    """

    dots: Array
    bent_dots: Array
    logits: Array
    shifted_logits: Array
    weights: Array
    total: Array
    output: Array

    def narrow(self) -> Truth:
        """The same in float64, which is enough to bound an error by."""
        return Truth(*(getattr(self, name).astype(np.float64, copy=False)
                       for name in self.__slots__))


def scaled_magnitude(operands: Operands, truth: Truth) -> Array:
    """(B,H,T,S): the size of the scaled dot products, before any bend."""
    return np.asarray(abs(float(operands.scale)) * np.abs(truth.dots))


def wide_float(dtype: DType) -> type[np.floating]:
    """The type in which the truth is computed for a subject of this dtype."""
    return np.longdouble if dtype is DType.FLOAT64 else np.float64


def is_wider(dtype: DType) -> bool:
    """Whether the truth is computed more finely than such a subject computes."""
    return (dtype is not DType.FLOAT64
            or bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps))


def compute_truth(operands: Operands, real: type[np.floating]) -> Truth:
    """Attention by its definition, in the arithmetic of `real`.

    Rows without a visible key get zeros.
    """
    dots = _dot_products(operands.query, operands.key, real)
    bent_dots = dots * real(operands.scale)
    if operands.bend is not None:
        bent_dots = operands.bend.bend(bent_dots, real)
    logits = bent_dots if operands.bias is None else bent_dots + operands.bias
    visible_logits = logits
    if operands.visible is not None:
        visible_logits = np.where(operands.visible, logits, -np.inf)
    largest = visible_logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted = logits - np.where(np.isneginf(largest), 0, largest)  # 0 where a row sees no key
    exponents = shifted
    if operands.visible is not None:
        exponents = np.where(operands.visible, shifted, -np.inf)
    weights = np.exp(exponents)
    total = weights.sum(axis=-1)
    output = (_dot_products(weights, operands.value.swapaxes(-1, -2), real)
              / np.where(total == 0, 1, total)[..., None])
    return Truth(dots, bent_dots, logits, shifted, weights, total, output)


def divisor(total: Array) -> Array:
    """(B,H,T) or (B,H,T,1): the sum of a row, with 1 in place of a 0 that must not divide."""
    return np.where(total == 0, 1, total)


def _dot_products(rows: Array, columns: Array, real: type[np.floating]) -> Array:
    """(B,H,T,·), (B,H,S,·) -> (B,H,T,S): dot products, as `multiply_wide` forms them."""
    if real is np.float64:
        product: Array = rows @ columns.swapaxes(-1, -2)
        return product
    wide = np.ascontiguousarray(columns, dtype=real)
    return np.asarray(np.einsum("bhtd,bhsd->bhts", rows.astype(real, copy=False), wide))


# A problem in blocks of batch entries, heads and queries, and their results put together


BATCH_AT_ONCE = 2**16
"""Key and value entries of the batch entries in one block: many small ones go together."""

KEYS_AT_ONCE = 2**21
"""Upper limit of the key and value entries of the heads in one block."""

LOGITS_AT_ONCE = 2**18
"""Logits (B·H·T·S) of a block. A larger intermediate is one row's, or one head's keys."""

BlockSlices = tuple[slice, slice, slice]
"""The place of a block along the axes B, H and T of the whole."""


@dataclass(frozen=True, slots=True, eq=False)
class ProblemBlock:
    """A block of a problem, ready for the definition, and its place in (B,H,T,…)."""

    place: BlockSlices
    operands: Operands


def cut_blocks(problem: Problem, conventions: Mapping[str, str], scale_width: int | None = None,
               rows: Array | None = None) -> Iterator[ProblemBlock]:
    """The blocks of a problem, or of its `rows` along T, each with its place in (B,H,T,…)."""
    sizes = problem.sizes
    all_rows = np.arange(sizes.T) if rows is None else rows
    T = len(all_rows)
    # so many batch entries go together, and of those that do so many heads
    size = problem.key.size + problem.value.size
    entries_at_once = sizes.B if size <= BATCH_AT_ONCE else BATCH_AT_ONCE * sizes.B // size
    entries_at_once = max(1, min(entries_at_once, LOGITS_AT_ONCE // max(1, sizes.H * T * sizes.S)))
    for batch in _cut_length(sizes.B, entries_at_once):
        entries = problem if batch == slice(0, sizes.B) else _take_batch(problem, batch)
        B = entries.sizes.B
        heads_at_once = min(LOGITS_AT_ONCE // max(1, B * T * sizes.S),
                            KEYS_AT_ONCE // max(1, B * sizes.S * (sizes.D + sizes.Dv)))
        for heads in _cut_length(sizes.H, max(1, min(heads_at_once, sizes.H))):
            part = entries
            if heads != slice(0, sizes.H):
                part = _take_heads(entries, heads, conventions)
            # once for all queries of the part
            keys = prepare_keys(part, conventions)
            most = max(1, LOGITS_AT_ONCE // max(1, part.sizes.B * part.sizes.H * part.sizes.S))
            # blocks of queries that are as even as can be
            count = max(1, -(-T // most))
            for queries in _cut_length(T, max(1, -(-T // count))):
                block_rows = rows if queries == slice(0, T) else all_rows[queries]
                operands = prepare_operands(part, conventions, scale_width, block_rows, keys)
                extra = extra_key(part)
                if extra is not None:
                    operands = add_extra_key(operands, extra)
                yield ProblemBlock((batch, heads, queries), operands)


def _cut_length(length: int, step: int) -> Iterator[slice]:
    """Slices of `step`, and of the rest, that cover a length; an empty one for a length of 0."""
    return (slice(start, min(start + step, length)) for start in range(0, max(1, length), step))


def _take_batch(problem: Problem, batch: slice) -> Problem:
    """The problem with some of its batch entries."""
    return problem.but(query=problem.query[batch], key=problem.key[batch],
                       value=problem.value[batch], **_slice_keywords(problem, "B", batch))


def _take_cached_heads(problem: Problem, heads: slice | Array) -> dict[str, Array | None]:
    """Some heads of the past keys and values (B,Hkv,P,·), if there are any.

    heads: a slice, or the index of each (H,).
    """
    arrays = {name: getattr(problem, name) for name in CACHED}
    return {name: None if array is None else array[:, heads] for name, array in arrays.items()}


def _take_heads(problem: Problem, heads: slice, conventions: Mapping[str, str]) -> Problem:
    """The problem with some query heads, each with a key/value head to itself."""
    owners = key_heads(problem, conventions)
    kv_heads = heads if owners is None else owners[heads]
    return problem.but(query=problem.query[:, heads], key=problem.key[:, kv_heads],
                       value=problem.value[:, kv_heads],
                       **{**_slice_keywords(problem, "H", heads),
                          **_take_cached_heads(problem, kv_heads)})


def _slice_keywords(problem: Problem, axis: str, some: slice) -> dict[str, Array | None]:
    """The arrays of keywords that have an axis of (B,H,T,S), cut along it."""
    return {name: _slice_axis(getattr(problem, name), len(axes) - axes.index(axis), some)
            for name, axes in AXES.items() if axis in axes}


def _slice_axis(array: Array | None, from_last: int, some: slice) -> Array | None:
    """Part of an axis, counted from the last, of a mask or bias (B,H,T,S), or of lengths (B,).

    An axis of length 1, along which the array is broadcast, stays whole.
    """
    if array is None or array.ndim < from_last or array.shape[-from_last] == 1:
        return array
    return array[(slice(None),) * (array.ndim - from_last) + (some,)]


def join_blocks(shape: tuple[int, int, int],
                found: Iterator[tuple[BlockSlices, Mapping[str, Array]]]) -> Mapping[str, Array]:
    """Joins the arrays of blocks, by name, to (B,H,T,…); `shape` is (B,H,T).

    Arrays without any axis longer than 0 stand for what was not asked for, and stay so.
    """
    whole: dict[str, Array] = {}
    for place, arrays in found:
        if tuple(each.stop - each.start for each in place) == shape:
            return arrays
        for name, array in arrays.items():
            if not any(array.shape):
                whole.setdefault(name, array)
                continue
            if name not in whole:
                whole[name] = np.empty((*shape, *array.shape[3:]), array.dtype)
            whole[name][place] = array
    return whole


@dataclass(frozen=True, slots=True, eq=False)
class Differentials:
    """What stands between a row's output and its inputs, of one block; 0 where a key is hidden.

    (B,H,T,S): weights P; products dP; centred_products = dP - delta; logits dS; dots dX, behind a
    bend; slope, the bend's; applied_weights, those by which the values are multiplied, P itself
    without dropout. delta (B,H,T,1).  grad (B,H,T,Dv): the output's gradient.
    """

    weights: Array
    products: Array
    centred_products: Array
    logits: Array
    dots: Array
    slope: Array
    delta: Array
    grad: Array
    applied_weights: Array

    def narrow(self) -> Differentials:
        """The same in float64, which is enough to bound an error by."""
        return Differentials(*(getattr(self, name).astype(np.float64, copy=False)
                               for name in self.__slots__))


def differentiate(operands: Operands, truth: Truth, grad: Array,
                  factor: Array | None = None) -> Differentials:
    """The differentials of one block, in the arithmetic of the truth.

    grad: the output's gradient (B,H,T,Dv). Rows that see no key have zeros throughout. factor
    (B,H,T,S): what weights are multiplied by before they meet the values, as in the truth.
    """
    real, visible = truth.output.dtype, operands.visible_array()
    grad = grad.astype(real)
    weights = np.where(visible, truth.weights, 0) / divisor(truth.total)[..., None]
    products = multiply_wide(grad, operands.value.swapaxes(-1, -2))
    applied_weights = weights
    if factor is not None:
        products = products * factor
        applied_weights = weights * factor
    delta = (grad * truth.output).sum(axis=-1, keepdims=True)
    centred_products = np.where(visible, products - delta, 0)
    logits, slope = weights * centred_products, _slope(operands, truth)
    return Differentials(weights, products, centred_products, logits, logits * slope, slope,
                         delta, grad, applied_weights)


def _slope(operands: Operands, truth: Truth) -> Array:
    """(B,H,T,S): the derivative of the bend at the scaled dot products; 1 without one."""
    if operands.bend is None:
        return np.ones_like(truth.dots)
    return operands.bend.derivative(truth.dots * truth.dots.dtype.type(operands.scale))


def multiply_wide(one: Array, other: Array) -> Array:
    """(…,T,·), (…,·,S) -> (…,T,S): a product in the arithmetic of the first.

    Long double has no BLAS; there einsum is the faster loop.
    """
    if one.dtype == np.float64:
        return np.asarray(one @ other)
    return np.asarray(np.einsum("...td,...ds->...ts", one,
                                np.ascontiguousarray(other, dtype=one.dtype)))


# The largest and the smallest value that a query attends to, column by column: no mean of them lies beyond


GATHERED_FROM = 2**13
"""Entries of a head's values from which they are gathered row by row; below, the loop is dear."""

COMPARED_AT_ONCE = 2**18
"""Upper limit of the entries that are compared at once, so that they stay in the cache."""


def attended_range(value: Array, visible: Array | None, rows: Array) -> tuple[Array, Array]:
    """(·,Dv) each: the largest and smallest attended value (B,H,S,Dv) in each True row of `rows`
    (B,H,T).

    visible: (B,H,T,S), None where every key is. A row that sees none has -inf and inf.
    """
    batch, head, query = np.nonzero(rows)
    if visible is None:
        return value.max(axis=-2)[batch, head], value.min(axis=-2)[batch, head]
    top = np.full((len(batch), value.shape[-1]), -np.inf, value.dtype)
    bottom = -top
    by_one = value.shape[-2] * value.shape[-1] >= GATHERED_FROM
    step = 1 if by_one else max(1, COMPARED_AT_ONCE // max(1, value.shape[-2] * value.shape[-1]))
    for start in range(0, len(batch), step):
        some = slice(start, start + step)
        b, h, i = batch[some], head[some], query[some]
        if by_one:
            _fill_range_of_row(value[b[0], h[0]], visible[b[0], h[0], i[0]], top[start],
                               bottom[start])
        else:
            _fill_range_of_rows(value[b, h], visible[b, h, i], top[some], bottom[some])
    return top, bottom


def _fill_range_of_row(value: Array, visible: Array, top: Array, bottom: Array) -> None:
    """Fills top and bottom (Dv,) for one row: value (S,Dv), visible (S,)."""
    attended_values = value[visible]  # gathered, they stay in the cache
    attended_values.max(axis=0, initial=-np.inf, out=top)
    attended_values.min(axis=0, initial=np.inf, out=bottom)


def _fill_range_of_rows(value: Array, visible: Array, top: Array, bottom: Array) -> None:
    """Fills top and bottom (·,Dv) for many rows: value (·,S,Dv), visible (·,S)."""
    visible = visible[..., None]
    np.where(visible, value, -np.inf).max(axis=-2, initial=-np.inf, out=top)
    np.where(visible, value, np.inf).min(axis=-2, initial=np.inf, out=bottom)


def attended_hull(problem: Problem, conventions: Mapping[str, str],
                  blocks: Iterator[ProblemBlock] | None = None) -> tuple[Array, Array]:
    """The least and the greatest visible value of each row and feature, (B,H,T,Dv) in float64.

    0 where none is visible; of no use on rows that see what is not finite.  blocks: of the
    problem, where they say how far values are from those that are read back.
    """
    blocks = blocks or cut_blocks(problem, conventions)
    hulls = ((block.place, _block_hull(block.operands)) for block in blocks)
    both = join_blocks((problem.sizes.B, problem.sizes.H, problem.sizes.T), hulls)
    return both["low"], both["high"]


def _block_hull(operands: Operands) -> dict[str, Array]:
    """The least (`low`) and greatest (`high`) visible value, (B,H,T,Dv) each; 0 without one."""
    shape = (*operands.query.shape[:3], operands.value.shape[-1])
    some = operands.counts > 0
    both = {"low": np.zeros(shape), "high": np.zeros(shape)}
    error = 0.0 if operands.entry_errors is None else operands.entry_errors.value
    both["high"][some], _ = attended_range(operands.value + error, operands.visible, some)
    _, both["low"][some] = attended_range(operands.value - error, operands.visible, some)
    return both
