"""What is read off an answer: the weights, through values that are the identity, their sums, and their logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnspec.numerics.bound import WeightError
from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.numerics.roundings import Roundings
from attnspec.problems.problem import Array

Erring = Sequence[tuple[Roundings, WeightError]]
"""Classes of arithmetic, each with the errors of the weights under it."""

def weights_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): D of the output for V = I, entry by entry; exactly 0 where the key is hidden."""
    p = truth.weights / divisor(truth.total)[..., None]
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
    least: Array = np.exp(np.minimum(truth.shifted - errors.error, 0.0)) / divisor(most)
    return least / 2


def _kept(errors: WeightError, r: Roundings) -> Array:
    """(B,H,T,1): the relative error of a single kept weight: rounded thrice an online rescale, and when stored."""
    kept: Array = (1 + 3 * errors.rescales * r.accumulate) * (1 + r.weights) - 1
    return kept


def divisor(total: Array) -> Array:
    """(B,H,T) or (B,H,T,1): the sum of a row, 1 in place of a 0 that must not divide."""
    divisor: Array = np.where(total == 0, 1, total)
    return divisor


def without_sink(operands: Operands, wide: Truth, truth: Truth,
                 erring: Erring) -> tuple[Operands, Truth, Truth, Erring]:
    """A block's operands, truth (wide, and in float64) and errors, of the keys alone; the wide truth's `shifted` are
    logits less the row's largest of a key, whatever the sink's.
    """
    keys = replace(operands, key=operands.key[:, :, :-1], value=operands.value[:, :, :-1],
                   visible=operands.seen()[..., :-1], has_sink=False)
    errors = [(r, replace(each, error=each.error[..., :-1], excess=each.excess[..., :-1])) for r, each in erring]
    of_keys = _of_keys(wide)
    top = np.where(keys.seen(), of_keys.shifted, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    return keys, replace(of_keys, shifted=of_keys.shifted - np.where(np.isneginf(top), 0, top)), _of_keys(truth), errors


def _of_keys(truth: Truth) -> Truth:
    scores = ("dots", "capped", "logits", "shifted", "weights")
    return replace(truth, **{name: getattr(truth, name)[..., :-1] for name in scores})
