"""Allowances of what is read off the weights: the weights themselves, their sum, their logarithms.

Weights are returned by the subject, or are what it answers where the values are the identity. Sums of one weight and
zeros are exact in any order, so unlike an output a weight pays for no accumulation.
"""

from __future__ import annotations

import numpy as np

from attnspec.numerics.bound import WeightError
from attnspec.numerics.reference import Operands, Truth
from attnspec.numerics.roundings import Roundings
from attnspec.problems.problem import Array


def weights_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): D of the output for V = I, entry by entry; exactly 0 where the key is hidden."""
    p = truth.weights / _divisor(truth.total)[..., None]
    least = errors.least[..., None]
    excess = errors.excess / least
    drift = excess * (1 - p) + p * np.maximum(errors.mass[..., None] - excess, 0.0)
    drift = np.fmin(drift, np.maximum(p, 1 - p))
    heavy = np.fmin((truth.weights + errors.excess) / least, 1.0)
    divided = errors.divided(r)
    rounded = heavy * _kept(errors, r) * (1 + divided) + (p + drift) * divided
    rounded += (p + drift + rounded) * (r.softmax * (2 + r.softmax))
    inside = drift + rounded + r.lost_weight * (1 + operands.counts[..., None] * p) + r.lost_product
    allowance = inside + r.output * (p + inside) + r.lost_output
    return allowance if operands.visible is None else np.where(operands.visible, allowance, 0.0)


def row_sum_allowance(operands: Operands, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T): D of the output for V = 1, and the rounding of each weight that is handed back."""
    divided = errors.divided(r)
    grown = (1 + _kept(errors, r)) * (1 + divided) * (1 + r.softmax) ** 2 * (1 + r.output) - 1
    lost = r.lost_weight * 2 + r.lost_product + r.lost_output
    allowance: Array = grown[..., 0] + operands.counts * lost * (1 + grown[..., 0])
    return allowance


def logits_allowance(truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): how far log(weight) less the log(weight) of the row's top key may be from the difference of their
    logits. The row's sum cancels. Infinite where the weight may leave the range in which it is rounded relatively.
    """
    top = np.take_along_axis(errors.error, np.argmax(truth.weights, axis=-1, keepdims=True), axis=-1)
    once = (1 + _kept(errors, r)) * (1 + r.softmax) ** 2 * (1 + r.output) - 1
    rounded = np.where(once < 1, -2 * np.log1p(-np.minimum(once, 0.999)), np.inf)
    return np.where(_least_weight(truth, errors) < r.normal_weight, np.inf, errors.error + top + rounded)


def _least_weight(truth: Truth, errors: WeightError) -> Array:
    """(B,H,T,S): no honest weight is smaller, roundings aside (the caller's half covers them)."""
    most = (truth.total + errors.excess.sum(axis=-1))[..., None]
    least: Array = np.exp(np.minimum(truth.shifted - errors.error, 0.0)) / _divisor(most)
    return least / 2


def _kept(errors: WeightError, r: Roundings) -> Array:
    """The relative error of a single kept weight: an online rescale rounds it thrice a block, storing rounds it."""
    kept: Array = (1 + 3 * errors.rescales * r.accumulate) * (1 + r.weights) - 1
    return kept


def _divisor(total: Array) -> Array:
    divisor: Array = np.where(total == 0, 1, total)
    return divisor
