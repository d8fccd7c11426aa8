"""The gradients of a layer's parameters, and how far rounding may take honest ones from them.

A projection Y = X W + b has dW = Xᵀ dY and db = dY, summed over the entries of the batch and their places. One of the
two factors is exact, the other one is what attention returns: dQ, dK or dV of a projection of inputs, its output of the
projection behind it. The derivation is docs/gradients.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnspec.numerics.gradient_precision import BackwardRoundings
from attnspec.numerics.gradient_sums import Gradient, Summing, Sums, finished
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """What goes into a projection, or the gradient of what comes out: (B,L,M) each, L its places.

    truth: in the arithmetic of the truth.  error: float64, how far an honest one may be from it.  claimed: bool.
    """

    truth: Array
    error: Array
    claimed: Array

    @property
    def size(self) -> Array:
        """(B,L,M): how large an honest one may be."""
        return np.asarray(np.abs(self.truth).astype(np.float64) + self.error)

    @property
    def judged(self) -> Array:
        """(M,), of a flat one: the columns of which all is claimed."""
        return np.asarray(self.claimed.all(axis=0))

    @property
    def flat(self) -> Factor:
        """The same with batch entries and places on one axis: (B·L,M)."""
        return Factor(*(each.reshape(-1, each.shape[-1]) for each in (self.truth, self.error, self.claimed)))


def exact(array: Array, real: np.dtype[np.floating], b: BackwardRoundings) -> Factor:
    """(B,L,M) as they are handed over, in the arithmetic of the truth. Where subnormal numbers are taken for 0, they
    are lost, and what they are multiplied by may be large.
    """
    size = np.abs(array.astype(np.float64))
    return Factor(array.astype(real), np.where(size < b.forward.lost_input, size, 0.0), np.ones(array.shape, bool))


def gradient_of_weight(given: Factor, back: Factor, classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,N): of the matrix between what is given, (B,L,M), and what comes back, (B,L,N).

    Where nothing is claimed of one entry of a column, nothing is of the column's sums: 0 times NaN is among them.
    """
    one, other = given.flat, back.flat
    size, turned = other.size, one.size.T
    error = one.error.T @ np.abs(other.truth).astype(np.float64) + turned @ other.error
    number = (turned > 0).astype(float) @ (size > 0).astype(float)
    whole = Factor(times(one.truth.T, other.truth), error, one.judged[:, None] & other.judged)
    own = [_stored_once(b, partial=0) for b in classes]
    return _summed(whole, turned @ size, number, len(size), own)


def gradient_of_bias(back: Factor, classes: Sequence[BackwardRoundings]) -> Gradient:
    """(N,): of what is added to all places of a projection, given the gradient of what comes out, (B,L,N)."""
    other = back.flat
    whole = Factor(other.truth.sum(axis=0), other.error.sum(axis=0), other.judged)
    number = (other.size > 0).sum(axis=0).astype(float)
    own = [_stored_once(b, partial=b.precision.partial_biases) for b in classes]
    return _summed(whole, other.size.sum(axis=0), number, len(other.size), own)


def _summed(whole: Factor, size: Array, number: Array, length: int, classes: Sequence[BackwardRoundings]) -> Gradient:
    """(M,N) or (N,): a sum, given what the errors of its terms come to, their sizes and how many there are.

    The errors count once, whatever the classes that add up the sums.
    """
    errors = (whole.error, *(np.zeros(size.shape) for _ in classes[1:]))
    sums = Sums(whole.truth, errors, (size,) * len(classes), number, ~whole.claimed)
    return finished(sums, Summing(length=length), tuple(classes))


def _stored_once(b: BackwardRoundings, *, partial: int) -> BackwardRoundings:
    """No scale is multiplied in behind these sums, so that they are rounded once, as they are returned. Attention's own
    kernel does not form them, so that what it does with partial sums is nothing to them. partial: what these do.
    """
    stored = min(b.precision.results, 1)
    return replace(b, results=stored * b.one, precision=replace(b.precision, results=stored, partial=partial))


def times(one: Array, other: Array) -> Array:
    """(M,L), (L,N) -> (M,N), in the arithmetic of the first."""
    if one.dtype == np.float64:
        return np.asarray(one @ other)
    return np.asarray(np.einsum("ml,ln->mn", one, np.ascontiguousarray(other, dtype=one.dtype)))
