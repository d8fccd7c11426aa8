"""How far what stands between the output's gradient and the sums may be off, pair by pair: the worst case.

The derivation is docs/gradients.md, whose symbols are used here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnspec.numerics.bound import LARGEST_ARGUMENT, WeightError, logit_error, logit_underflow, product_error
from attnspec.numerics.gradient_precision import BackwardRoundings
from attnspec.numerics.gradient_truth import Differentials
from attnspec.numerics.lse import log_sum_exp, lse_allowance
from attnspec.numerics.operands import Operands
from attnspec.numerics.reference import Truth, scaled
from attnspec.problems.problem import Array

OF_A_QUOTIENT = 6
"""Roundings between the exponentials and delta where it is formed as sum e·(dP / l): quotients and squares."""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A block on its way back: what is multiplied, the truth, and where the subject rounds; all in float64.

    factor (B,H,T,S): of weights that are dropped.  rescaling: relative, what it adds.
    """

    operands: Operands
    truth: Truth
    found: Differentials
    roundings: BackwardRoundings
    errors: WeightError
    seen: Array
    factor: Array | None = None
    rescaling: float = 0.0

    @property
    def grown(self) -> float:
        """By how much dropout makes products grow, at the most."""
        return 1.0 if self.factor is None else max(1.0, float(self.factor.max(initial=0.0)))

    @property
    def step(self) -> float:
        """One rounding of what is computed entry by entry."""
        return max(self.roundings.forward.softmax, self.roundings.forward.accumulate)

    def over_keys(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the sum over what a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).sum(axis=-1, keepdims=True))

    def largest(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the largest of what a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).max(axis=-1, keepdims=True, initial=0.0))

    def mean(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the most that a mean under the perturbed weights may be, of what is not negative."""
        heavy = (self.truth.weights + self.errors.excess) / self.errors.least[..., None]
        return np.asarray(np.fmin(self.over_keys(heavy * array), self.largest(array)))


INSIDE = 4
"""How often dP, delta, their difference and dS may underflow beside the products that delta is the sum of."""


@dataclass(frozen=True, slots=True, eq=False)
class PairErrors:
    """(B,H,T,S), 0 where a key is hidden: of the weights as they meet the output's gradient, of dS, and of dX."""

    weights: Array
    logits: Array
    dots: Array


def pair_errors(block: Pass) -> PairErrors:
    """The errors of a block."""
    b, p = block.roundings, block.found.weights
    growth = weight_growth(block)
    error = _of_weights(block, growth)
    kept = error + b.kept * (p + error)
    apart = _of_difference(block, growth)
    logits = (p + kept) * apart + kept * np.abs(block.found.apart)
    size = np.abs(block.found.logits)
    logits = logits + ((1 + block.step) ** 2 * (1 + b.logits) - 1) * (size + logits) + b.lost_logits
    if b.lost_inside:  # dP, each product with a weight, the sum of these, the difference, and dS
        logits = logits + (block.operands.counts[..., None] + INSIDE) * b.lost_inside
    logits = np.where(block.seen, logits, 0.0)
    return PairErrors(_dropped(block, error + b.weights * (p + error)), logits, _behind_bend(block, logits))


def _dropped(block: Pass, error: Array) -> Array:
    """(B,H,T,S): of the weights that the values are multiplied by, given that of all weights."""
    if block.factor is None:
        return error
    return np.asarray(block.factor * (error + block.rescaling * (block.found.weights + error)))


def weight_growth(block: Pass) -> Array:
    """(B,H,T,S): omega, how far the logarithm of a weight may be off, as it comes into the backward pass."""
    r, truth, errors = block.roundings.forward, block.truth, block.errors
    raised = np.log1p(errors.excess.sum(axis=-1) / truth.total)[..., None]
    growth = np.asarray(errors.error + raised + errors.divided(r) + 2 * r.softmax)
    if block.roundings.precision.is_recomputed:
        growth = np.fmax(growth, _of_recomputed(block))
    return np.asarray(np.where(block.seen, growth, 0.0))


def _of_recomputed(block: Pass) -> Array:
    """(B,H,T,S): the same of exp(logit - logsumexp). It is the size of both that counts, not of their difference."""
    operands, truth, r = block.operands, block.truth, block.roundings.forward
    off = lse_allowance(operands, truth, r, block.errors)[..., None]
    lse = np.abs(log_sum_exp(truth, operands))[..., None]
    size = np.abs(truth.logits) + np.where(np.isfinite(lse), lse, 0.0)
    if operands.reach is not None:  # both may have been counted from the first key
        size = size + operands.reach + operands.reach.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(logit_error(operands, truth, r) * (1 + r.argument) + r.argument * (size + off) + r.exp + off)


def grown(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): p·(exp(growth) - 1), never less; a weight that has underflown in the truth may come back."""
    p, total = block.found.weights, np.maximum(block.truth.total, np.finfo(float).tiny)[..., None]
    logarithm = block.truth.shifted - np.log(total)
    high = np.exp(np.minimum(logarithm + growth, LARGEST_ARGUMENT)) - p
    return np.asarray(np.where(block.seen, np.where(growth < 1, p * np.expm1(np.minimum(growth, 1.0)), high), 0.0))


def _of_weights(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): e_P. What is divided by its own sum is at most 1, but for the roundings of sum and quotient."""
    b, p = block.roundings, block.found.weights
    lost = b.forward.lost_weight + (b.lost if b.precision.weights or b.precision.kept else 0.0)
    error = grown(block, growth) + lost
    if not b.precision.is_recomputed:
        error = np.fmin(error, np.maximum(p, 1 - p) + block.errors.divided(b.forward) + 3 * b.forward.softmax + lost)
    return np.asarray(np.where(block.seen, error, 0.0))


def _of_difference(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): of dP - delta, by which the weights are multiplied; or of P·dP - P·delta, over P."""
    products, delta = _of_products(block), _of_delta(block, growth)
    size = np.abs(block.found.products) + np.abs(block.found.delta) + products + delta
    return np.asarray(products + delta + 3 * block.step * size)


def _of_products(block: Pass) -> Array:
    """(B,H,T,S): of dP, the products of the output's gradient and the values."""
    b, width = block.roundings, block.operands.value.shape[-1]
    error = width * b.forward.accumulate * sizes_of_products(block)
    stored = b.products + block.rescaling * (1 + b.products)
    error = error + stored * (np.abs(block.found.products) + error)
    lost = b.lost if b.precision.products else 0.0
    return np.asarray(error + block.grown * (2 * width + 2) * b.forward.lost_product + block.grown * lost)


def sizes_of_products(block: Pass) -> Array:
    """(B,H,T,S): M, the products of the absolute values."""
    sizes = np.abs(block.found.grad) @ block.operands.sizes.value.swapaxes(-1, -2)
    return np.asarray(sizes if block.factor is None else sizes * block.factor)


def _of_delta(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): of delta, whichever way it is formed."""
    by_either = np.fmax(_by_output(block), _by_products(block))
    return np.asarray(_drift(block, growth) + by_either)


def _drift(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): how far wrong weights move delta. The output's one identity, projected on its gradient: what counts
    is dP - delta, and no mean leaves the range of what it is of.
    """
    apart, errors = np.abs(block.found.apart), block.errors
    if block.roundings.precision.is_normalised:
        moved = block.over_keys(errors.excess * apart) / errors.least[..., None]
        return np.asarray(np.fmin(moved, block.largest(apart)))
    common = np.expm1(np.minimum(block.largest(growth), LARGEST_ARGUMENT))
    return np.asarray(block.over_keys(grown(block, growth) * apart) + np.abs(block.found.delta) * common)


def _by_output(block: Pass) -> Array:
    """(B,H,T,1): what the sum dO·O adds: sum, storage and division of the output, and its own products."""
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    width, sizes = block.found.grad.shape[-1], sizes_of_products(block)
    grad, divided = np.abs(block.found.grad), block.errors.divided(r)
    own = (grad * np.abs(block.truth.output)).sum(axis=-1, keepdims=True)
    summed = (1 + block.errors.chain * r.accumulate) * (1 + r.weights) * (1 + divided) * (1 + r.softmax) ** 2
    summed = summed * (1 + block.rescaling) - 1
    inside = summed * block.mean(sizes)
    moved = block.over_keys(block.errors.excess * (sizes + own)) / block.errors.least[..., None]
    around = np.fmin(moved, block.largest(sizes) + own) + inside
    error = inside + (b.of_output + (width + 1) * r.accumulate * (1 + b.of_output)) * (own + around)
    error = error + r.lost_weight * (block.over_keys(sizes) + rows * own) + (2 * width + 2) * r.lost_product
    stored = b.lost if b.precision.is_of_returned else r.lost_product
    lost = (stored + 2 * rows * r.lost_product) * block.grown
    return np.asarray(error + grad.sum(axis=-1, keepdims=True) * lost)


def _by_products(block: Pass) -> Array:
    """(B,H,T,1): what the sum of P·dP adds."""
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    size, error = np.abs(block.found.products), _of_products(block)
    divided, chain = block.errors.divided(r), block.errors.chain * block.step
    summed = (1 + b.kept) * (1 + divided) * (1 + r.softmax) ** OF_A_QUOTIENT * (1 + chain) - 1
    lost = r.lost_weight + (b.lost if b.precision.kept else 0.0)
    return np.asarray(block.mean(error) + summed * block.mean(size + error) + lost * block.over_keys(size)
                      + (2 * rows + 2) * r.lost_product)


def _behind_bend(block: Pass, logits: Array) -> Array:
    """(B,H,T,S): of dX, given that of dS."""
    operands, truth, b, r = block.operands, block.truth, block.roundings, block.roundings.forward
    if operands.bend is None:
        return logits
    size, before = np.abs(block.found.logits), product_error(operands, truth, r) + logit_underflow(operands, r)
    of_slope = operands.bend.derivative_error(before, scaled(operands, truth), np.abs(truth.bent), r)
    error = (size + logits) * of_slope + logits * block.found.slope
    error = error + b.bent * (np.abs(block.found.dots) + error) + 3 * b.lost_logits
    return np.asarray(np.where(block.seen, error, 0.0))
