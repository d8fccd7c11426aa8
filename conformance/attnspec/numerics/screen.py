"""Large problems: a bound for every entry that is cheap and never below the sharp one, and which rows to look at again.

The sharp bound costs four products of (T,S) by (S,·) beside the two of the truth, this one costs one. It is that of
`bound.py`, evaluated once a row, at the largest that each of its ingredients is anywhere in the row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.bound import (
    WeightError,
    allowance_of,
    in_domain,
    logarithm_error,
    logit_error,
    most_rescales,
    normaliser_of,
)
from attnspec.numerics.operands import Operands, norms
from attnspec.numerics.reference import Truth
from attnspec.numerics.roundings import Roundings
from attnspec.problems.problem import Array, Problem

LONG_DOUBLE_UP_TO = 2**25
"""Multiply-adds B·H·T·S·(D+Dv) up to which the truth of a float64 subject is worked out in long double: an eighth of a
second."""

SHARP_UP_TO = 2**26
"""Logits B·H·T·S up to which every row is held to the sharp bound: some four seconds."""

CLOSEST = 8
"""Queries of each head that are judged sharply where a problem is screened: those that come closest to the bound."""

LARGEST_ERROR = 0.25
"""Of the logarithm of a weight: beyond it the cheap bound would say little, and the sharp one is worked out."""

UPWARDS = 1 + 1e-9
"""More than what the roundings of these formulas themselves may take away."""


def is_large(problem: Problem) -> bool:
    """Whether a problem is screened."""
    n = problem.sizes
    logits = n.B * n.H * n.T * n.S
    return logits > SHARP_UP_TO or (problem.dtype is DType.FLOAT64 and logits * (n.D + n.Dv) > LONG_DOUBLE_UP_TO)


def screening_allowance(operands: Operands, truth: Truth, r: Roundings) -> tuple[Array, Array] | None:
    """An upper bound of `output_allowance` (B,H,T,Dv), and the rows (B,H,T) on which there is a claim; None where the
    sharp bound has to be worked out, since this one would say little.
    """
    if operands.bend is not None:  # the slope is least where logits are largest: nothing is gained from maxima
        return None
    if r.stored:  # what rounding to codes does is worked out entry by entry
        return None
    error, rescales = _largest_error(operands, truth, r)
    if not (error <= LARGEST_ERROR).all():
        return None
    grown, total = error * (1 + error), truth.total[..., None]
    least = total * (1 - error)
    errors = WeightError(error, error[..., 0], grown * total, least[..., 0], (grown / (1 - error))[..., 0],
                         operands.counts[..., None] + 3 * rescales, rescales,
                         normaliser_of(truth, operands.visible, r))
    drift, reach = _drift_and_reach(operands, truth, grown / (1 - error), (1 + grown) / (1 - error))
    every = replace(operands, visible=None)  # hidden values too: what underflows is next to nothing
    return UPWARDS * allowance_of(every, np.abs(truth.output), errors, r, drift=drift, reach=reach), \
        in_domain(operands, truth, r, errors)


def _largest_error(operands: Operands, truth: Truth, r: Roundings) -> tuple[Array, Array]:
    """(B,H,T,1): no error of the logarithm of a weight in the row is larger; and the most rescales."""
    largest, alike = _row_maxima(operands, truth)
    error = UPWARDS * logit_error(largest, alike, r)
    rescales = most_rescales(operands, r)
    # the maximum of what is computed is off by no more than the worst of the logits
    return logarithm_error(error.copy(), alike.shifted, error, rescales, r), rescales


def _row_maxima(operands: Operands, truth: Truth) -> tuple[Operands, Truth]:
    """The problem as if each row had one key (S = 1), as large in every respect as any of the row's keys."""
    sizes = operands.sizes
    query, key = norms(operands.query)[..., None], sizes.key_norms.max(axis=-1, initial=0.0)[..., None, None]
    sums = sizes.key_sums.max(axis=-1, initial=0.0)[..., None]
    sizes = replace(sizes, query=query, key=key, key_sums=sums)
    bias, reach = (None if each is None else np.abs(each).max(axis=-1, keepdims=True, initial=0.0)
                   for each in (operands.bias, operands.reach))
    dots, logits, far = (_size(array) for array in (truth.dots, truth.logits, truth.shifted))
    alike = Truth(dots, dots, logits, far, truth.total[..., None], truth.total, truth.output)
    return replace(operands, sizes=sizes, bias=bias, reach=reach, visible=None), alike


def _size(array: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest absolute value of each row."""
    top, bottom = array.max(axis=-1, keepdims=True, initial=0.0), array.min(axis=-1, keepdims=True, initial=0.0)
    size: Array = np.maximum(top, -bottom)
    return size


def _drift_and_reach(operands: Operands, truth: Truth, off: Array, heaviest: Array) -> tuple[Array, Array]:
    """(B,H,T,Dv) each: no less than B1 and A1, by the mean and the variance of the values under the true weights."""
    value, o, total = operands.value, truth.output, np.where(truth.total == 0, 1, truth.total)[..., None]
    unit = 2.0 ** np.frexp(max(operands.sizes.largest_value, 1e-300))[1]  # squares of it neither under- nor overflow
    mean = (truth.weights @ np.square(value / unit)) / total
    guard = 4 * (2 * value.shape[-2] + 16) * 2.0**-52
    square = np.square(o / unit)
    apart = np.maximum(mean - square, 0.0) + guard * (mean + square) + 1e-300
    return off * unit * np.sqrt(apart), heaviest * unit * np.sqrt(mean * (1 + guard) + 1e-300)


def closest(seen: Array, truth: Array, allowance: Array, claimed: Array) -> Array:
    """The indices along T, in order, of the queries (B,H,T,Dv) that come closest to what is allowed."""
    with np.errstate(all="ignore"):
        ratio = np.where(claimed[..., None], np.abs(seen - truth) / allowance, 0.0)
    worst = np.where(np.isnan(ratio), np.inf, ratio).max(axis=(0, 1, 3), initial=0.0)
    return np.sort(np.argsort(-worst, kind="stable")[:CLOSEST])
