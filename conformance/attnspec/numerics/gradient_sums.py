"""The sums that gradients are, put together block by block: their truth, and what errors of terms
and sums come to.

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
    """With respect to one input, in its shape: the truth, how far an honest one may be from it,
    and where that counts.

    truth: float64, long double for a float64 subject.  allowance: float64.  claimed: bool.
    """

    truth: Array
    allowance: Array
    claimed: Array


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums on their way, each array but number in the shape of the input, such as (B,Hkv,S,D).

    errors: what the errors of the terms come to, one array a class.  sizes: the terms with their
    errors, unscaled. number, of a shape that broadcasts: how many terms there are.  lost: bool,
    what hangs on something unclaimed.
    """

    truth: Array
    errors: tuple[Array, ...]
    sizes: tuple[Array, ...]
    number: Array
    lost: Array = field(repr=False)

    @staticmethod
    def start(shape: tuple[int, ...], counted: tuple[int, ...], real: np.dtype[np.floating],
              classes: int) -> Sums:
        """Nothing yet; any shape, and that of what counts the terms."""
        errors = tuple(np.zeros(shape) for _ in range(classes))
        sizes = tuple(np.zeros(shape) for _ in range(classes))
        return Sums(np.zeros(shape, real), errors, sizes, np.zeros(counted),
                    np.zeros(counted, bool))


@dataclass(frozen=True, slots=True)
class Summing:
    """How a sum is formed.  scale: what its terms are multiplied by at the end.  extra: relative,
    what that adds.  length: of the axes along which it runs.  heads: how many share the input.
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
    """The gradient that the sums come to: what errs adds up, and what overflows is not claimed."""
    parts = [_sums_allowance(sums, how, b, error, size)
             for b, error, size in zip(classes, sums.errors, sums.sizes, strict=True)]
    allowance = np.asarray(sum(parts))
    # the scale may be multiplied in before or after the sum
    largest = sums.sizes[0] * max(1.0, how.scale) * classes[0].forward.inputs.logit_growth
    fits = (largest <= classes[0].largest / 2) & (largest <= classes[0].forward.largest_sum / 2)
    claimed = (fits & np.isfinite(allowance) & np.isfinite(sums.truth)
               & ~np.broadcast_to(sums.lost, sums.truth.shape))
    return Gradient(sums.truth, allowance, np.asarray(claimed))


def _sums_allowance(sums: Sums, how: Summing, b: BackwardRoundings, error: Array,
                    size: Array) -> Array:
    """In the shape of the input, such as (B,Hkv,S,D): with errors of the terms and their sizes so
    far.
    """
    b, number, size = _adapt_to_storage(b, how), sums.number, how.scale * size
    error = (error
             + (_bias_sum_error(number, b) if how.is_of_bias else _plain_sum_error(number, how, b))
             * size)
    if how.heads > 1:
        # each head of a group may be stored before they are added up
        error = error * (1 + b.group) + b.group * size
    error = (error + b.results * (np.abs(sums.truth.astype(np.float64)) + error)
             + _sums_underflow(number, how, b))
    return np.asarray(np.where(number > 0, error, 0.0))


def _adapt_to_storage(b: BackwardRoundings, how: Summing) -> BackwardRoundings:
    """The class, with what is stored wide where the input is."""
    if not how.is_wide or b.precision.logits:
        return b
    # what is kept wider than the dtype is rounded as a log-sum-exp is
    return replace(b, bias=0.0, results=b.forward.lse, underflow=b.forward.lost_product)


def _plain_sum_error(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """Relative, in the shape of the number of terms (any shape): of a sum in any order, scaled,
    stored on its way.
    """
    # a kernel may store partial sums in the dtype, each of which is rounded once more
    stored = np.expm1(_count_stored_sums(number, how, b) * np.log1p(b.one))
    return np.asarray((1 + number * b.forward.accumulate) * (1 + how.extra) * (1 + stored) - 1)


def _bias_sum_error(number: Array, b: BackwardRoundings) -> Array:
    """The same, any shape, of the gradient of a bias, whose terms are stored before more than one
    of them is summed.
    """
    # they may be summed in the accumulator's or in the softmax's format
    step = max(b.forward.accumulate, b.forward.softmax)
    return np.asarray((number > 1) * (number * step * (1 + b.bias) + b.bias))


def _count_stored_sums(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """How many partial sums are stored, in the shape of the number of terms (any shape)."""
    if not b.precision.partial:
        return np.zeros(())
    return np.asarray(np.minimum(number, -(-how.length // b.precision.partial)))


def _sums_underflow(number: Array, how: Summing, b: BackwardRoundings) -> Array:
    """Absolute, in the shape of the number of terms (any shape): what storage and products lose."""
    if how.is_of_bias:
        return np.asarray((b.precision.results + b.precision.bias * number) * b.underflow)
    grown = max(1.0, how.scale)
    stored = ((b.precision.results + b.precision.group) * how.heads * grown
              + _count_stored_sums(number, how, b) * grown)
    return np.asarray(stored * b.underflow + (2 * number + 2) * b.forward.lost_product * grown)


def add_heads(sums: Array, part: Array, batch: slice, owners: Array) -> None:
    """Add (B,H,…) of some batch entries and heads to (B,Hkv,…), each head to the one that it
    shares; owners (H,).
    """
    for at, owner in enumerate(owners):
        sums[batch, owner] += part[:, at]


def mark_heads(lost: Array, part: Array, batch: slice, owners: Array) -> None:
    """The same of what is lost, (B,H) to (B,Hkv,…)."""
    for at, owner in enumerate(owners):
        lost[batch, owner] |= part[:, at].reshape(-1, *(1 for _ in lost.shape[2:]))


def reduce_block(part: Array, place: BlockSlices,
                 shape: tuple[int, ...]) -> tuple[tuple[slice, ...], Array]:
    """Where the sum of a block (B,H,T,S) belongs in an array of this shape, which broadcasts to
    that; and the sum.
    """
    axes = tuple(axis for axis, length in enumerate(shape) if length == 1 < part.shape[axis])
    spots = tuple(slice(None) if length == 1 else where
                  for length, where in zip(shape, (*place, slice(None)), strict=True))
    return spots, np.asarray(part.sum(axis=axes, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """What goes into a projection, or the gradient of what comes out: (B,T,M) each, T its places.

    truth: in the arithmetic of the truth.  error: float64, how far an honest one may be from it.
    claimed: bool.
    """

    truth: Array
    error: Array
    claimed: Array

    @property
    def size(self) -> Array:
        """(B,T,M): how large an honest one may be."""
        return np.asarray(np.abs(self.truth).astype(np.float64) + self.error)

    @property
    def claimed_columns(self) -> Array:
        """(M,), of a flat one: the columns of which all is claimed."""
        return np.asarray(self.claimed.all(axis=0))

    @property
    def flat(self) -> Factor:
        """The same with batch entries and places on one axis: (B·T,M)."""
        return Factor(*(each.reshape(-1, each.shape[-1])
                        for each in (self.truth, self.error, self.claimed)))


def exact_factor(array: Array, real: np.dtype[np.floating], b: BackwardRoundings) -> Factor:
    """(B,T,M) as they are handed over, in the arithmetic of the truth. Where subnormal numbers are
    taken for 0, they are lost, and what they are multiplied by may be large.
    """
    size = np.abs(array.astype(np.float64))
    # what is flushed errs by all of itself
    return Factor(array.astype(real), np.where(size < b.forward.lost_input, size, 0.0),
                  np.ones(array.shape, bool))


def gradient_of_weight(given: Factor, back: Factor,
                       classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,H·D): of the matrix between what is given, (B,T,M), and what comes back, (B,T,H·D).

    Where nothing is claimed of one entry of a column, nothing is of the column's sums: 0 times NaN
    is among them.
    """
    one, other = given.flat, back.flat
    size, turned = other.size, one.size.T
    error = one.error.T @ np.abs(other.truth).astype(np.float64) + turned @ other.error
    number = (turned > 0).astype(float) @ (size > 0).astype(float)
    whole = Factor(multiply_wide(one.truth.T, other.truth), error,
                   one.claimed_columns[:, None] & other.claimed_columns)
    own = [_stored_once(b, partial=0) for b in classes]
    return _finish_projection(whole, turned @ size, number, len(size), own)


def gradient_of_bias(back: Factor, classes: Sequence[BackwardRoundings]) -> Gradient:
    """(H·D,): of what is added to all places of a projection, given the gradient of what comes
    out, (B,T,H·D).
    """
    other = back.flat
    whole = Factor(other.truth.sum(axis=0), other.error.sum(axis=0), other.claimed_columns)
    number = (other.size > 0).sum(axis=0).astype(float)
    own = [_stored_once(b, partial=b.precision.partial_biases) for b in classes]
    return _finish_projection(whole, other.size.sum(axis=0), number, len(other.size), own)


def _finish_projection(whole: Factor, size: Array, number: Array, length: int,
                       classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,H·D) or (H·D,): a sum, given what the errors of its terms come to, their sizes and how
    many there are.

    The errors count once, whatever the classes that add up the sums.
    """
    errors = (whole.error, *(np.zeros(size.shape) for _ in classes[1:]))
    sums = Sums(whole.truth, errors, (size,) * len(classes), number, ~whole.claimed)
    return finish_sums(sums, Summing(length=length), tuple(classes))


def _stored_once(b: BackwardRoundings, *, partial: int) -> BackwardRoundings:
    """No scale is multiplied in behind these sums, so that they are rounded once, as they are
    returned. Attention's own kernel does not form them, so that what it does with partial sums is
    nothing to them.  partial: what these do.
    """
    stored = min(b.precision.results, 1)
    return replace(b, results=stored * b.one,
                   precision=replace(b.precision, results=stored, partial=partial))
