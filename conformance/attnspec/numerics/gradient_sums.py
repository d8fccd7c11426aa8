"""Sums up gradients block by block: their truth, and the errors of terms and sums.

Keys and values sum over all queries of all heads that share them, so that no block knows their
gradient alone.

A layer's parameters: a projection Y = X W + b has dW = Xᵀ dY and db = dY, summed over the entries
of the batch and their places. One of the two factors is exact, the other one is what attention
returns: dQ, dK or dV of a projection of inputs, its output of the projection behind it. The
derivation is docs/gradients.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attnspec.numerics.reference import BlockSlices, multiply_wide
from attnspec.numerics.roundings import BackwardRoundings
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """The gradient with respect to one input, in its shape: truth, allowance, and where a claim is
    made.

    truth: float64, long double for a float64 subject.  allowance: float64.  claimed: bool.
    """

    truth: Array
    allowance: Array
    claimed: Array


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums so far; all arrays but `number` have the shape of the input, such as (B,Hkv,S,D).

    errors: the sums of the errors of the terms, one array for each class.  sizes: the terms with
    their errors, unscaled. number, of a shape that broadcasts: how many terms there are.  lost:
    bool, what depends on something without a claim.
    """

    truth: Array
    errors: tuple[Array, ...]
    sizes: tuple[Array, ...]
    number: Array
    lost: Array = field(repr=False)

    @staticmethod
    def start(shape: tuple[int, ...], number_shape: tuple[int, ...], real: np.dtype[np.floating],
              classes: int) -> Sums:
        """Sums of nothing, of any shape.

        number_shape: that of the numbers of terms.
        """
        errors = tuple(np.zeros(shape) for _ in range(classes))
        sizes = tuple(np.zeros(shape) for _ in range(classes))
        return Sums(np.zeros(shape, real), errors, sizes, np.zeros(number_shape),
                    np.zeros(number_shape, bool))


@dataclass(frozen=True, slots=True)
class Summing:
    """How a sum is formed.

    scale: what its terms are multiplied by at the end.  extra: the relative error of that.
    length: of the axes along which it runs.  heads: how many share the input.
    is_of_bias: whether it is summed as the gradient of a bias is, from terms that are stored.
    is_wide: whether it is stored no more coarsely than it is computed, unless all such terms are.
    """

    scale: float = 1.0
    extra: float = 0.0
    length: int = 1
    heads: int = 1
    is_of_bias: bool = False
    is_wide: bool = False


def finish_sums(sums: Sums, how: Summing, classes: tuple[BackwardRoundings, ...]) -> Gradient:
    """The gradient from its sums; where one overflows there is no claim."""
    parts = [_sums_allowance(sums, how, b, error, size)
             for b, error, size in zip(classes, sums.errors, sums.sizes, strict=True)]
    allowance = np.asarray(sum(parts))
    # the scale may be multiplied in before or after the sum
    largest = sums.sizes[0] * max(1.0, how.scale) * classes[0].forward.inputs.logit_growth
    fits = (largest <= classes[0].largest / 2) & (largest <= classes[0].forward.largest_sum / 2)
    is_claimed = (fits & np.isfinite(allowance) & np.isfinite(sums.truth)
               & ~np.broadcast_to(sums.lost, sums.truth.shape))
    return Gradient(sums.truth, allowance, np.asarray(is_claimed))


def _sums_allowance(sums: Sums, how: Summing, b: BackwardRoundings, error: Array,
                    size: Array) -> Array:
    """In the shape of the input, such as (B,Hkv,S,D), from errors and sizes of the terms."""
    b, number, size = _adapt_to_storage(b, how), sums.number, how.scale * size
    if how.is_of_bias:
        error = error + _bias_sum_error(number, b) * size
    else:
        error = error + _plain_sum_error(number, how, b) * size
    if how.heads > 1:
        # each head of a group may be stored before they are added up
        error = error * (1 + b.group) + b.group * size
    error = (error + b.results * (np.abs(sums.truth.astype(np.float64)) + error)
             + _sums_underflow(number, how, b))
    return np.asarray(np.where(number > 0, error, 0.0))


def _adapt_to_storage(b: BackwardRoundings, how: Summing) -> BackwardRoundings:
    """The class, with wide storage where the input is wide."""
    if not how.is_wide or b.precision.logits:
        return b
    # what is kept wider than the dtype is rounded as a log-sum-exp is
    return replace(b, bias=0.0, results=b.forward.lse, underflow=b.forward.lost_product)


def _plain_sum_error(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """The relative error of a sum in any order, scaled and stored on its way.

    In the shape of the number of terms (any shape).
    """
    # a kernel may store partial sums in the dtype, each of which is rounded once more
    storage_error = np.expm1(_count_stored_sums(number, how, b) * np.log1p(b.one))
    return np.asarray((1 + number * b.forward.accumulate) * (1 + how.extra) * (1 + storage_error) - 1)


def _bias_sum_error(number: Array, b: BackwardRoundings) -> Array:
    """The same, any shape, of a bias: its terms are stored before they are summed."""
    # they may be summed in the accumulator's or in the softmax's format
    step = max(b.forward.accumulate, b.forward.softmax)
    return np.asarray((number > 1) * (number * step * (1 + b.bias) + b.bias))


def _count_stored_sums(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """How many partial sums are stored, in the shape of the number of terms (any shape)."""
    if not b.precision.partial:
        return np.zeros(())
    return np.asarray(np.minimum(number, -(-how.length // b.precision.partial)))


def _sums_underflow(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """What storage and products lose, in the shape of the number of terms (any shape)."""
    if how.is_of_bias:
        return np.asarray((b.precision.results + b.precision.bias * number) * b.underflow)
    growth = max(1.0, how.scale)
    storages = ((b.precision.results + b.precision.group) * how.heads * growth
                + _count_stored_sums(number, how, b) * growth)
    return np.asarray(storages * b.underflow + (2 * number + 2) * b.forward.lost_product * growth)


def add_heads(sums: Array, part: Array, batch: slice, owners: Array) -> None:
    """Adds (B,H,…) of some batch entries and heads to (B,Hkv,…) by their owners (H,)."""
    for head, owner in enumerate(owners):
        sums[batch, owner] += part[:, head]


def mark_heads(lost: Array, part: Array, batch: slice, owners: Array) -> None:
    """Marks in (B,Hkv,…) what is lost in (B,H), each head at its owner; owners (H,)."""
    for head, owner in enumerate(owners):
        lost[batch, owner] |= part[:, head].reshape(-1, *(1 for _ in lost.shape[2:]))


def reduce_block(part: Array, place: BlockSlices,
                 shape: tuple[int, ...]) -> tuple[tuple[slice, ...], Array]:
    """The place and the sum of a block (B,H,T,S) in an array that broadcasts to its shape."""
    axes = tuple(axis for axis, length in enumerate(shape) if length == 1 < part.shape[axis])
    spots = tuple(slice(None) if length == 1 else where
                  for length, where in zip(shape, (*place, slice(None)), strict=True))
    return spots, np.asarray(part.sum(axis=axes, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A factor of a projection's gradient: what goes in, or the gradient of what comes out,
    (B,T,M).

    truth: in the arithmetic of the truth.  error: float64, how far an honest one may be from it.
    claimed: bool.
    """

    truth: Array
    error: Array
    claimed: Array

    @property
    def size(self) -> Array:
        """(B,T,M): how large an honest factor may be."""
        return np.asarray(np.abs(self.truth).astype(np.float64) + self.error)

    @property
    def claimed_columns(self) -> Array:
        """(M,), of a flat factor: the columns in which every entry has a claim."""
        return np.asarray(self.claimed.all(axis=0))

    @property
    def flat(self) -> Factor:
        """The same with batch entries and places on one axis: (B·T,M)."""
        return Factor(*(each.reshape(-1, each.shape[-1])
                        for each in (self.truth, self.error, self.claimed)))


def exact_factor(array: Array, real: np.dtype[np.floating], b: BackwardRoundings) -> Factor:
    """An array (B,T,M) as a factor, in the arithmetic of the truth.

    Where subnormal numbers are taken for 0, they are lost, and what they are multiplied by may be
    large.
    """
    size = np.abs(array.astype(np.float64))
    # what is flushed errs by all of itself
    return Factor(array.astype(real), np.where(size < b.forward.lost_input, size, 0.0),
                  np.ones(array.shape, bool))


def gradient_of_weight(inputs: Factor, back: Factor,
                       classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,H·D): the gradient of a matrix, from its inputs (B,T,M) and what comes back (B,T,H·D).

    Where nothing is claimed of one entry of a column, nothing is of the column's sums: 0 times NaN
    is among them.
    """
    one, other = inputs.flat, back.flat
    size, transposed_size = other.size, one.size.T
    error = one.error.T @ np.abs(other.truth).astype(np.float64) + transposed_size @ other.error
    number = (transposed_size > 0).astype(float) @ (size > 0).astype(float)
    whole = Factor(multiply_wide(one.truth.T, other.truth), error,
                   one.claimed_columns[:, None] & other.claimed_columns)
    own = [_stored_once(b, partial=0) for b in classes]
    return _finish_projection(whole, transposed_size @ size, number, len(size), own)


def gradient_of_bias(back: Factor, classes: Sequence[BackwardRoundings]) -> Gradient:
    """(H·D,): the gradient of a projection's bias, from what comes back (B,T,H·D)."""
    other = back.flat
    whole = Factor(other.truth.sum(axis=0), other.error.sum(axis=0), other.claimed_columns)
    number = (other.size > 0).sum(axis=0).astype(float)
    own = [_stored_once(b, partial=b.precision.partial_biases) for b in classes]
    return _finish_projection(whole, other.size.sum(axis=0), number, len(other.size), own)


def _finish_projection(whole: Factor, size: Array, number: Array, length: int,
                       classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,H·D) or (H·D,): the gradient from the errors of its terms, their sizes and their number.

    The errors count once, whatever the classes that add up the sums.
    """
    errors = (whole.error, *(np.zeros(size.shape) for _ in classes[1:]))
    sums = Sums(whole.truth, errors, (size,) * len(classes), number, ~whole.claimed)
    return finish_sums(sums, Summing(length=length), tuple(classes))


def _stored_once(b: BackwardRoundings, *, partial: int) -> BackwardRoundings:
    """The class of sums that are rounded once, as they are returned: no scale follows them.

    Attention's own kernel does not form them, so that its partial sums do not matter.  partial:
    the terms after which these sums store a partial one.
    """
    results = min(b.precision.results, 1)
    return replace(b, results=results * b.one,
                   precision=replace(b.precision, results=results, partial=partial))
