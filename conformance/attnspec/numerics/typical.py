"""How far an honest implementation may be from the truth where its roundings are independent and unbiased.

The worst case of `bound.py` adds every rounding up; independent ones add up in square (Hoeffding), and beyond some
seventy terms that is less. The price is a rate of false alarms, stated by the caller, and values without structure:
only families called `generic` may be judged by it. The derivation is docs/numerics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from attnspec.numerics.bound import WeightError, logit_underflow, lost_weights, product_error
from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.numerics.roundings import Roundings, of_slopes, own_spread, scaled, slope
from attnspec.problems.problem import Array

AT_ONCE = 2**20  # entries of weight·value that are formed at once


@dataclass(frozen=True, slots=True, eq=False)
class Typical:
    """What chance and what no chance contributes to the error of an output.

    spread (B,H,T,Dv): the root of the sum of squared roundings.  strain (B,H,T,1): the same of the worst attended
    logarithm of a weight; beyond some 0.1 / multiple the error is no longer linear in it.  sure (B,H,T,Dv): errors that
    all have one sign, or are too few for chance to matter.
    """

    spread: Array
    strain: Array
    sure: Array

    def __add__(self, other: Typical) -> Typical:
        """Two errors on top of each other: the subject's, and the truth's own."""
        return Typical(self.spread + other.spread, np.maximum(self.strain, other.strain), self.sure + other.sure)

    def allowance(self, worst_case: Array, multiple: float) -> Array:
        """(B,H,T,Dv): S. Never more than the worst case, which also stands where S has no meaning."""
        curved = np.exp(np.minimum(2 * multiple * self.strain, 700.0))
        return np.asarray(np.fmin(worst_case, multiple * self.spread * curved + self.sure))


def multiple(events: int, false_alarm: float) -> float:
    """How many spreads no error of so many exceeds, but with probability `false_alarm` (Hoeffding, and a union)."""
    return math.sqrt(2 * math.log(2 * max(events, 1) / false_alarm))


def typical(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Typical:
    """The ingredients of S. Meaningless on rows that `in_domain` leaves out."""
    p = truth.weights / np.where(truth.total == 0, 1, truth.total)[..., None]
    variance, size = _log_variance(operands, truth, r, errors), np.abs(truth.output)
    attended = variance if operands.visible is None else np.where(operands.visible, variance, 0.0)
    # exp(e) - 1 is linear in e only while e is small; the worst of them says how far that holds
    strain = np.sqrt(attended.max(axis=-1, keepdims=True, initial=0.0))
    sure = _of_constants(operands, truth, p, r) + size * (r.softmax * (2 + r.softmax)) + lost_weights(operands, size, r)
    sure = sure + size * errors.normaliser + _of_slopes(operands, truth, p, r)
    # squares of values near 1e-150 underflow, and every float64 subject stood at 6 to 42 times S on such heads
    unit, grown = _unit_of(operands.value), 1 + r.output
    scaled, answer = replace(operands, value=operands.value / unit), replace(truth, output=truth.output / unit)
    square = _apart(p * p * variance, scaled.value, answer.output)
    square += _of_query(scaled, answer, p, r) + _of_sums(scaled, answer, p, r, errors)
    spread = unit * np.sqrt(square)
    return Typical(spread * grown, strain, sure * grown + r.output * size + r.lost_output)


def _of_slopes(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array | float:
    """(B,H,T,Dv): slopes give neighbouring keys and rows the same roundings, which chance does not damp."""
    if operands.reach is None:
        return 0.0
    moved = p * of_slopes(operands, truth, r)
    return np.asarray(moved @ operands.sizes.value + np.abs(truth.output) * moved.sum(axis=-1, keepdims=True))


def _unit_of(value: Array) -> Array:
    """(B,H,1,1): a power of two of the size of each head's values. In such units no square over- or underflows."""
    largest = np.abs(value).max(axis=(-2, -1), keepdims=True, initial=0.0)
    return np.asarray(np.ldexp(1.0, np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 1.0))[1]))


def _log_variance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): the squared roundings in the logarithm of each weight that no other key shares."""
    a, D = abs(float(operands.scale)), float(operands.query.shape[-1])
    squares = np.square(operands.query) @ np.square(operands.key).swapaxes(-1, -2)
    summed = r.accumulate * a * np.sqrt(squares + _partial_sums(squares, truth.dots, D))
    size, logits = scaled(operands, truth), np.abs(truth.logits)
    stored = r.logits * (logits if operands.softcap is None else size)
    if operands.bias is not None and operands.softcap is None:
        summed = summed + (math.sqrt(D) * r.accumulate * r.bias_in_accumulator) * np.abs(operands.bias)
        stored = _added(size, logits, r)
    # the scale may be multiplied into keys, one rounding an entry, or into the logit
    prescaled = r.prescale * r.prescale * (a * a * squares + size * size)
    before = summed**2 + prescaled + stored**2 + logit_underflow(operands, r) ** 2
    if operands.softcap is not None:
        before = _behind_the_cap(before, operands, truth, r)
    # a rescaling is shared by the keys before it; over all orders their partial sums come to a sixth of the squares
    exponential = r.exp * r.exp + errors.rescales / 6 * (r.exp + r.softmax) ** 2
    return np.asarray(before + np.square(r.argument * truth.shifted) + exponential)


def _added(product: Array, logits: Array, r: Roundings) -> Array:
    """(B,H,T,S): the addition of a bias, and the storing, as the root of their squared roundings."""
    return np.asarray(np.hypot(r.biased_logits * np.maximum(product, logits), r.accumulate * logits))


def _behind_the_cap(before: Array, operands: Operands, truth: Truth, r: Roundings) -> Array:
    """(B,H,T,S): the squared roundings of capped logits, bias added, given those of the scaled dot products."""
    assert operands.softcap is not None
    size, capped = scaled(operands, truth), np.abs(truth.capped)
    steepness = slope(size, product_error(operands, truth, r), operands.softcap)  # anywhere between truth and answer
    behind = steepness**2 * before + own_spread(size, capped, steepness, operands.softcap, r)
    return behind if operands.bias is None else behind + _added(capped, np.abs(truth.logits), r) ** 2


def _steepness(operands: Operands, truth: Truth) -> Array | float:
    """(B,H,T,S): the slope of the softcap at each logit; 1 without one."""
    return 1.0 if operands.softcap is None else slope(scaled(operands, truth), 0.0, operands.softcap)


def _partial_sums(squares: Array, total: Array, n: Array | float) -> Array:
    """The sum of the squared partial sums of n terms, given the sum of their squares and their total (any shape): the
    mean over all orders of adding one after the other. Trees and blocks have smaller ones.
    """
    n = np.maximum(n, 1.0)
    steady = total * total / n
    return np.asarray((n + 1) / 6 * np.maximum(squares - steady, 0.0) + (n + 1) * (2 * n + 1) / 6 * steady)


def _apart(mass: Array, value: Array, o: Array) -> Array:
    """The sum of mass_j·(v_j - o)², (B,H,T,Dv), by matrix products; their cancellation is guarded upwards."""
    squares, shift = mass @ (value * value), o * o * mass.sum(axis=-1, keepdims=True)
    guard = (2 * value.shape[-2] + 16) * 2.0**-52
    apart: Array = np.maximum(squares - 2 * o * (mass @ value) + shift, 0.0) + guard * (squares + shift)
    return apart


def _of_query(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array:
    """(B,H,T,Dv): the scale multiplied into the query: an entry's rounding is shared by all keys, and moves the output
    by the covariance of key entry and value.
    """
    query, key, value = operands.query, operands.key, operands.value
    square, T = np.empty_like(truth.output), query.shape[2]
    p = p * _steepness(operands, truth)
    step = max(1, AT_ONCE // max(1, p[:, :, :1].size * value.shape[-1]))
    for start in range(0, T, step):
        rows = slice(start, start + step)
        joint = key.swapaxes(-1, -2)[:, :, None] @ (p[:, :, rows, :, None] * value[:, :, None])  # (B,H,rows,D,Dv)
        mean = (p[:, :, rows] @ key)[..., None]  # with a softcap a key counts by how steep it is at its logit
        covariance = joint - mean * truth.output[:, :, rows, None, :]
        square[:, :, rows] = (np.square(query[:, :, rows, None, :]) @ np.square(covariance))[..., 0, :]
    return np.asarray((r.prescale * float(operands.scale)) ** 2 * square)


def _of_sums(operands: Operands, truth: Truth, p: Array, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,Dv): weights rounded before they meet the values, the sum of their products, and the row's sum."""
    n, o, squares = operands.counts[..., None], truth.output, p * p
    products = squares @ np.square(operands.value)
    longer = errors.chain / np.maximum(n, 1.0)  # rescaling rounds partial sums again
    numerator = products * (r.weights**2 + r.accumulate**2) + _partial_sums(products, o, n) * longer * r.accumulate**2
    whole = np.ones_like(n)
    denominator = _partial_sums(squares.sum(axis=-1, keepdims=True), whole, n) * longer * r.row_sum**2
    return np.asarray(numerator + o * o * denominator)


def _of_constants(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array:
    """(B,H,T,Dv): the scale and log2(e) are off by one factor for all keys: a change of temperature, which chance does
    not damp.
    """
    pushed = abs(float(operands.scale)) * truth.dots * _steepness(operands, truth)
    reciprocal = 0.0 if operands.softcap is None else r.accumulate  # of the cap
    return np.asarray((r.scale + reciprocal) * _covariance(pushed, p, operands)
                      + r.softmax * _covariance(truth.shifted, p, operands))


def _covariance(logits: Array, p: Array, operands: Operands) -> Array:
    """(B,H,T,Dv): |Cov(logit, value)| under the weights."""
    known = logits if operands.visible is None else np.where(operands.visible, logits, 0.0)
    centred = known - (p * known).sum(axis=-1, keepdims=True)
    return np.asarray(np.abs((p * centred) @ operands.value))
