"""The log-sum-exp of a row, and how far rounding may take it. The derivation is in docs/numerics.md."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.bound import WeightError, stored_weights
from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth
from attnspec.numerics.roundings import Roundings
from attnspec.numerics.stored_format import WEIGHTS
from attnspec.problems.problem import Array

LOG_ULPS = 3
"""OpenCL's bound for the error of a logarithm, the standard that the bounds of exp and tanh are from; 1 ulp is 2u."""

BASE_TWO = 2
"""A logarithm to base two is multiplied by ln(2), which is rounded; likewise a maximum on its way there and back."""


def log_sum_exp(truth: Truth, operands: Operands) -> Array:
    """(B,H,T): the natural logarithm of the sum of the exponentials of a row's logits; -inf where it sees no key."""
    lse: Array = _largest(truth, operands) + np.log(truth.total)
    return lse


def _largest(truth: Truth, operands: Operands) -> Array:
    """(B,H,T): the row's largest attended logit; -inf where there is none."""
    seen = truth.logits if operands.visible is None else np.where(operands.visible, truth.logits, -np.inf)
    largest: Array = seen.max(axis=-1, initial=-np.inf)
    return largest


def lse_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T): how far an honest log-sum-exp may be from the truth."""
    up, down = np.log1p(errors.excess.sum(axis=-1) / truth.total), np.log(truth.total / errors.least)
    summed = -np.log1p(-(errors.chain * r.row_sum)[..., 0])
    error = np.maximum(up, down) + summed
    stored = stored_weights(truth, r, errors, operands.visible)
    if stored is not None and r.stored[WEIGHTS].summed:
        error = error - np.log1p(-np.minimum(stored.mass[..., 0], 1.0))
    logarithm, largest = np.abs(np.log(truth.total)), np.abs(_largest(truth, operands))
    error = error + (2 * LOG_ULPS + BASE_TWO) * r.softmax * (logarithm + error)
    error = error + 2 * BASE_TWO * r.softmax * (largest + _off(operands, truth, errors))
    size = np.abs(log_sum_exp(truth, operands))
    error = error + r.softmax * (size + error)
    if operands.reach is not None:  # what a row counted from the first key has too much is taken off again
        reach = operands.reach.max(axis=-1, initial=0.0)
        error = error + r.softmax * (reach + (size + reach + error))
    returned: Array = error + (r.lse + r.logsumexp) * (size + error)
    return returned


def _off(operands: Operands, truth: Truth, errors: WeightError) -> Array:
    """(B,H,T): how far the largest logit that is computed may be from the true one."""
    raised = truth.shifted + errors.error
    seen = raised if operands.visible is None else np.where(operands.visible, raised, 0.0)
    off: Array = seen.max(axis=-1, initial=0.0)
    return off
