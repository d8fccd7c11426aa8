"""The gradients of a problem by definition, and how far from them rounding may take an honest
backward pass.

What stands between the output's gradient and the sums is bounded pair by pair, in the worst case.
The derivation is docs/gradients.md, whose symbols are used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.numerics.bound import (
    LARGEST_ARGUMENT,
    WeightError,
    add_offset,
    in_domain,
    logit_error,
    logit_underflow,
    lse_allowance,
    product_error,
    row_log_sum_exp,
    weight_error,
)
from attnspec.numerics.dropout import multiply_weights, rescaling_error
from attnspec.numerics.gradient_sums import (
    Gradient,
    Summing,
    Sums,
    add_heads,
    finish_sums,
    mark_heads,
    reduce_block,
)
from attnspec.numerics.operands import Operands, key_heads, queries_within, read_entries, roundings_of
from attnspec.numerics.precision import Precision, assumed_precision
from attnspec.numerics.reference import (
    Differentials,
    ProblemBlock,
    Truth,
    compute_truth,
    cut_blocks,
    differentiate,
    is_wider,
    multiply_wide,
    scaled_magnitude,
    wide_float,
)
from attnspec.numerics.roundings import BackwardPrecision, BackwardRoundings, assumed_backward, backward_roundings
from attnspec.problems.problem import CACHED_INPUTS, INPUTS, Array, Problem

QUOTIENT_ROUNDINGS = 6
"""Roundings between the exponentials and delta where it is formed as sum e·(dP / l): quotients and
squares.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A block on its way back: what is multiplied, the truth, and where the subject rounds; all in
    float64.

    factor (B,H,T,S): of weights that are dropped.  rescaling: relative, what it adds.
    """

    operands: Operands
    truth: Truth
    differentials: Differentials
    roundings: BackwardRoundings
    errors: WeightError
    seen: Array
    factor: Array | None = None
    rescaling: float = 0.0

    @property
    def dropout_growth(self) -> float:
        """By how much dropout makes products grow, at the most."""
        return 1.0 if self.factor is None else max(1.0, float(self.factor.max(initial=0.0)))

    @property
    def entry_rounding(self) -> float:
        """One rounding of what is computed entry by entry."""
        return max(self.roundings.forward.softmax, self.roundings.forward.accumulate)

    def sum_over_keys(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the sum over what a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).sum(axis=-1, keepdims=True))

    def largest_seen(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the largest of what a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).max(axis=-1, keepdims=True, initial=0.0))

    def heaviest_mean(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the most that a mean under the perturbed weights may be, of what
        is not negative.
        """
        heavy = (self.truth.weights + self.errors.excess) / self.errors.least[..., None]
        return np.asarray(np.fmin(self.sum_over_keys(heavy * array), self.largest_seen(array)))


INNER_UNDERFLOWS = 4
"""How often dP, delta, their difference and dS may underflow beside the products that delta is the
sum of.
"""


@dataclass(frozen=True, slots=True, eq=False)
class PairErrors:
    """(B,H,T,S), 0 where a key is hidden: of the weights as they meet the output's gradient, of
    dS, and of dX.
    """

    weights: Array
    logits: Array
    dots: Array


def pair_errors(block: Pass) -> PairErrors:
    """The errors of a block."""
    b, p = block.roundings, block.differentials.weights
    growth = weight_growth(block)
    error = _pass_weight_error(block, growth)
    kept = error + b.kept * (p + error)
    apart = _difference_error(block, growth)
    # a product of two factors that both err: dS = P·(dP - delta)
    logits = (p + kept) * apart + kept * np.abs(block.differentials.centred_products)
    size = np.abs(block.differentials.logits)
    # the difference and the product round once each, and dS is stored
    logits = (logits + ((1 + block.entry_rounding) ** 2 * (1 + b.logits) - 1) * (size + logits)
              + b.lost_logits)
    if b.lost_inside:  # dP, each product with a weight, the sum of these, the difference, and dS
        logits = logits + (block.operands.counts[..., None] + INNER_UNDERFLOWS) * b.lost_inside
    logits = np.where(block.seen, logits, 0.0)
    return PairErrors(_dropped_weight_error(block, error + b.weights * (p + error)), logits,
                      _dots_error(block, logits))


def _dropped_weight_error(block: Pass, error: Array) -> Array:
    """(B,H,T,S): of the weights that the values are multiplied by, given that of all weights."""
    if block.factor is None:
        return error
    return np.asarray(block.factor
                      * (error + block.rescaling * (block.differentials.weights + error)))


def weight_growth(block: Pass) -> Array:
    """(B,H,T,S): omega, how far the logarithm of a weight may be off, as it comes into the
    backward pass.
    """
    r, truth, errors = block.roundings.forward, block.truth, block.errors
    # the sum by which a weight was divided may have been too small by so much
    raised = np.log1p(errors.excess.sum(axis=-1) / truth.total)[..., None]
    growth = np.asarray(errors.error + raised + errors.divisor_error(r) + 2 * r.softmax)
    if block.roundings.precision.is_recomputed:
        # the class says that P may be formed anew, not that it is: the larger of both is allowed
        growth = np.fmax(growth, _recomputed_growth(block))
    return np.asarray(np.where(block.seen, growth, 0.0))


def _recomputed_growth(block: Pass) -> Array:
    """(B,H,T,S): the same of exp(logit - logsumexp). It is the size of both that counts, not of
    their difference.
    """
    operands, truth, r = block.operands, block.truth, block.roundings.forward
    # the log-sum-exp is what forward passes keep, with all its own errors
    off = lse_allowance(operands, truth, r, block.errors)[..., None]
    lse = np.abs(row_log_sum_exp(truth, operands))[..., None]
    size = np.abs(truth.logits) + np.where(np.isfinite(lse), lse, 0.0)
    if operands.reach is not None:  # both may have been counted from the first key
        size = size + operands.reach + operands.reach.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(logit_error(operands, truth, r) * (1 + r.argument)
                      + r.argument * (size + off) + r.exp + off)


def excess_weight(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): p·(exp(growth) - 1), never less; a weight that has underflown in the truth may
    come back.
    """
    p = block.differentials.weights
    total = np.maximum(block.truth.total, np.finfo(float).tiny)[..., None]
    logarithm = block.truth.shifted_logits - np.log(total)
    # exp itself, where p·expm1 would be 0 for a weight that underflowed in the truth
    high = np.exp(np.minimum(logarithm + growth, LARGEST_ARGUMENT)) - p
    return np.asarray(np.where(block.seen,
                               np.where(growth < 1, p * np.expm1(np.minimum(growth, 1.0)), high),
                               0.0))


def _pass_weight_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): e_P. What is divided by its own sum is at most 1, but for the roundings of sum
    and quotient.
    """
    b, p = block.roundings, block.differentials.weights
    # storing P in the dtype loses what is small there
    lost = (b.forward.lost_weight
            + (b.underflow if b.precision.weights or b.precision.kept else 0.0))
    error = excess_weight(block, growth) + lost
    if not b.precision.is_recomputed:
        # a normalised weight lies between 0 and 1
        error = np.fmin(error, np.maximum(p, 1 - p) + block.errors.divisor_error(b.forward) + 3
                        * b.forward.softmax + lost)
    return np.asarray(np.where(block.seen, error, 0.0))


def _difference_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): of dP - delta, by which the weights are multiplied; or of P·dP - P·delta, over P."""
    products, delta = _output_product_error(block), _delta_error(block, growth)
    # both may be multiplied by P before they are subtracted: three roundings at their own sizes
    size = (np.abs(block.differentials.products) + np.abs(block.differentials.delta) + products
            + delta)
    return np.asarray(products + delta + 3 * block.entry_rounding * size)


def _output_product_error(block: Pass) -> Array:
    """(B,H,T,S): of dP, the products of the output's gradient and the values."""
    b, width = block.roundings, block.operands.value.shape[-1]
    # Dv products, in any order
    inside = width * b.forward.accumulate
    inside += b.forward.inputs.of_values * (1 + inside)  # each product is off by what its value is
    error = inside * output_product_sizes(block)
    stored = b.products + block.rescaling * (1 + b.products)
    error = error + stored * (np.abs(block.differentials.products) + error)
    lost = b.underflow if b.precision.products else 0.0
    return np.asarray(error + block.dropout_growth * (2 * width + 2) * b.forward.lost_product
                      + block.dropout_growth * lost)


def output_product_sizes(block: Pass) -> Array:
    """(B,H,T,S): M, the products of the absolute values, and of what is added up to make a value."""
    values = add_offset(block.operands.sizes.value, block.roundings.forward.inputs.value_offset)
    sizes = np.abs(block.differentials.grad) @ values.swapaxes(-1, -2)
    return np.asarray(sizes if block.factor is None else sizes * block.factor)


def _delta_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): of delta, whichever way it is formed."""
    # delta is the sum dO·O or the sum P·dP, which are the same number
    by_either = np.fmax(_delta_error_by_output(block), _delta_error_by_products(block))
    return np.asarray(_delta_drift(block, growth) + by_either)


def _delta_drift(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): how far wrong weights move delta. The output's one identity, projected on its
    gradient: what counts is dP - delta, and no mean leaves the range of what it is of.
    """
    apart, errors = np.abs(block.differentials.centred_products), block.errors
    if block.roundings.precision.is_normalised:
        # as B1 of the output, whose projection on its own gradient delta is
        moved = block.sum_over_keys(errors.excess * apart) / errors.least[..., None]
        return np.asarray(np.fmin(moved, block.largest_seen(apart)))
    # weights that were not divided by their own sum may all be too large alike
    common = np.expm1(np.minimum(block.largest_seen(growth), LARGEST_ARGUMENT))
    return np.asarray(block.sum_over_keys(excess_weight(block, growth) * apart)
                      + np.abs(block.differentials.delta) * common)


def _delta_error_by_output(block: Pass) -> Array:
    """(B,H,T,1): what the sum dO·O adds: sum, storage and division of the output, and its own
    products.
    """
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    width, sizes = block.differentials.grad.shape[-1], output_product_sizes(block)
    grad, divided = np.abs(block.differentials.grad), block.errors.divisor_error(r)
    own = (grad * np.abs(block.truth.output)).sum(axis=-1, keepdims=True)
    summed = ((1 + block.errors.chain * r.accumulate) * (1 + r.weights) * (1 + divided)
              * (1 + r.softmax) ** 2)
    summed = summed * (1 + block.rescaling) * (1 + r.inputs.of_values) - 1
    inside = summed * block.heaviest_mean(sizes)
    # how far wrong weights move the output, by sizes
    moved = (block.sum_over_keys(block.errors.excess * (sizes + own))
             / block.errors.least[..., None])
    around = np.fmin(moved, block.largest_seen(sizes) + own) + inside
    error = (inside
             + (b.of_output + (width + 1) * r.accumulate * (1 + b.of_output)) * (own + around))
    error = (error + r.lost_weight * (block.sum_over_keys(sizes) + rows * own)
             + (2 * width + 2) * r.lost_product)
    # delta may be formed of the output in the accumulator, or as it was returned
    stored = b.underflow if b.precision.is_of_returned else r.lost_product
    lost = (stored + 2 * rows * r.lost_product) * block.dropout_growth
    return np.asarray(error + grad.sum(axis=-1, keepdims=True) * lost)


def _delta_error_by_products(block: Pass) -> Array:
    """(B,H,T,1): what the sum of P·dP adds."""
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    size, error = np.abs(block.differentials.products), _output_product_error(block)
    divided, chain = block.errors.divisor_error(r), block.errors.chain * block.entry_rounding
    summed = (1 + b.kept) * (1 + divided) * (1 + r.softmax) ** QUOTIENT_ROUNDINGS * (1 + chain) - 1
    lost = r.lost_weight + (b.underflow if b.precision.kept else 0.0)
    return np.asarray(block.heaviest_mean(error) + summed * block.heaviest_mean(size + error)
                      + lost * block.sum_over_keys(size)
                      + (2 * rows + 2) * r.lost_product)


def _dots_error(block: Pass, logits: Array) -> Array:
    """(B,H,T,S): of dX, given that of dS."""
    operands, truth, b, r = block.operands, block.truth, block.roundings, block.roundings.forward
    if operands.bend is None:
        return logits
    size = np.abs(block.differentials.logits)
    before = product_error(operands, truth, r) + logit_underflow(operands, r)
    # the slope is formed of a logit that errs
    of_slope = operands.bend.derivative_error(before, scaled_magnitude(operands, truth),
                                              np.abs(truth.bent_dots), r)
    error = (size + logits) * of_slope + logits * block.differentials.slope
    error = error + b.bend_error * (np.abs(block.differentials.dots) + error) + 3 * b.lost_logits
    return np.asarray(np.where(block.seen, error, 0.0))


BIAS, SINKS = "bias", "sinks"
DIFFERENTIABLE_INPUTS = (*INPUTS, *CACHED, BIAS, SINKS)
"""The inputs with respect to which there are gradients."""


def expect_gradients(
    problem: Problem, grad: Array, precision: Precision, backward: BackwardPrecision, *,
    conventions: Mapping[str, str], scale_width: int | None = None, settled: Array | None = None,
    factor: Array | None = None,
) -> Mapping[str, Gradient]:
    """By name of the input, its gradient, where the output's is `grad` (B,H,T,Dv).

    settled: (B,T) bool, where a row that sees no key contributes nothing, as its output is zeros;
    None: everywhere. Of a row that is unsettled, or out of the domain of the bounds, nothing is
    claimed, nor of any key of its heads. factor (B,H,T,S): of weights that are dropped.  The other
    arguments are those of `expect`.
    """
    own, *of_truth = erring_classes(precision, backward)
    classes = (replace(own, forward=roundings_of(problem, precision)), *of_truth)
    problem = read_entries(problem)
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is not claimed
        way = _Way(problem, grad, classes, key_heads(problem, conventions),
                   np.ones((problem.sizes.B, 1), bool) if settled is None else settled,
                   _start_sums(problem, len(classes)), factor, rescaling_error(precision))
        scale = max((_add_block(way, block)
                     for block in cut_blocks(problem, conventions, scale_width)), default=1.0)
        return _split_past_gradients(problem, _finish_gradients(way, scale))


def erring_classes(precision: Precision,
                   backward: BackwardPrecision) -> tuple[BackwardRoundings, ...]:
    """The classes whose roundings add up: that of the subject, and that of the truth where it is
    no finer.
    """
    own = assumed_precision(DType.FLOAT64)
    subject = backward_roundings(precision, backward)
    if is_wider(precision.dtype):
        return (subject,)
    return subject, backward_roundings(own, assumed_backward(own))


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A problem, the output's gradient, the classes that err, and the sums so far, by name of the
    input.

    factor (B,H,T,S), rescaling: of weights that are dropped.
    """

    problem: Problem
    grad: Array
    classes: tuple[BackwardRoundings, ...]
    key_heads: Array | None
    settled: Array
    sums: Mapping[str, Sums]
    factor: Array | None
    rescaling: float

    def owners(self, heads: slice) -> Array:
        """(H,): the key/value head of each of these query heads."""
        every = np.arange(self.problem.sizes.H) if self.key_heads is None else self.key_heads
        return np.asarray(every[heads])


def _start_sums(problem: Problem, classes: int) -> Mapping[str, Sums]:
    """No sums yet."""
    n, real = problem.sizes, np.dtype(wide_float(problem.dtype))
    keys = {"key": (n.B, n.Hkv, n.S, n.D), "value": (n.B, n.Hkv, n.S, n.Dv)}
    sums = {"query": Sums.start((n.B, n.H, n.T, n.D), (n.B, n.H, n.T, 1), real, classes),
            **{name: Sums.start(shape, (*shape[:3], 1), real, classes)
               for name, shape in keys.items()}}
    if problem.bias is not None:
        shape = (1,) * (4 - problem.bias.ndim) + problem.bias.shape
        sums[BIAS] = Sums.start(shape, shape, real, classes)
    if problem.sinks is not None:
        sums[SINKS] = Sums.start((1, n.H, 1, 1), (1, n.H, 1, 1), real, classes)
    return sums


def _add_block(way: _Way, block: ProblemBlock) -> float:
    """Add what a block contributes; returns the size of the scale."""
    block = _hide_absent_queries(way, block)
    operands, place = block.operands, block.place
    truth = compute_truth(operands, wide_float(way.problem.dtype))
    factor = _block_factor(way, block)
    truth = truth if factor is None else multiply_weights(truth, operands, factor)
    found = differentiate(operands, truth, way.grad[place], factor)
    narrow = truth.narrow()
    seen = operands.visible_array()
    rescaled = 0.0 if factor is None else way.rescaling
    passes = [Pass(operands, narrow, found.narrow(), b, weight_error(operands, narrow, b.forward),
                   seen, factor, rescaled) for b in way.classes]
    pairs = [pair_errors(each) for each in passes]
    _add_terms(way, block, found, way.problem.sizes.S)
    for at, (each, errors) in enumerate(zip(passes, pairs, strict=True)):
        _add_errors(way, block, each, errors, at)
    _count_terms(way, block, ~_mark_claimed(way, block, passes[0], pairs[0]))
    return abs(float(operands.scale))


def _block_factor(way: _Way, block: ProblemBlock) -> Array | None:
    """(B,H,T,S): what the weights of a block are multiplied by, a sink's by 1."""
    if way.factor is None:
        return None
    missing = block.operands.shape[3] - way.factor.shape[3]
    return np.pad(way.factor[block.place], [(0, 0), (0, 0), (0, 0), (0, missing)],
                  constant_values=1.0)


def _hide_absent_queries(way: _Way, block: ProblemBlock) -> ProblemBlock:
    """A block whose rows beyond the number of queries see nothing, not even a sink."""
    if way.problem.query_lengths is None:
        return block
    batch, _, queries = block.place
    within = queries_within(way.problem)[batch, None, queries]
    visible = block.operands.visible_array() & within[..., None]
    return replace(block,
                   operands=replace(block.operands, visible=visible,
                                    counts=visible.sum(axis=-1, dtype=float)))


def _add_terms(way: _Way, block: ProblemBlock, found: Differentials, keys: int) -> None:
    """The truth's share of a block; keys: how many there are without a sink."""
    operands, sums, owners = block.operands, way.sums, way.owners(block.place[1])
    real = found.dots.dtype.type
    a, batch = real(operands.scale), block.place[0]
    sums["query"].truth[block.place] = multiply_wide(found.dots, operands.key) * a
    turned = found.dots[..., :keys].swapaxes(-1, -2)
    add_heads(sums["key"].truth, multiply_wide(turned, operands.query) * a, batch, owners)
    weights = found.applied_weights[..., :keys].swapaxes(-1, -2)
    add_heads(sums["value"].truth, multiply_wide(weights, found.grad), batch, owners)
    for name, part in _split_logits(way, found.logits, keys):
        spots, total = reduce_block(part, block.place, sums[name].truth.shape)
        sums[name].truth[spots] += total


def _split_logits(way: _Way, logits: Array, keys: int) -> list[tuple[str, Array]]:
    """By input that is added to the logits, the share (B,H,T,·) of an array (B,H,T,S) that is of
    it.
    """
    parts = {BIAS: logits[..., :keys], SINKS: logits[..., keys:]}
    return [(name, part) for name, part in parts.items() if name in way.sums]


def _add_errors(way: _Way, block: ProblemBlock, each: Pass, errors: PairErrors, at: int) -> None:
    """The errors' share of a block in one class, whose index is `at`."""
    operands = block.operands
    found = each.differentials
    b = each.roundings
    keys = way.problem.sizes.S
    a = abs(float(operands.scale))
    # an underflow is absolute, and each visible key may have one
    low = np.where(each.seen, max(1.0, a) * (b.lost_logits + b.forward.lost_product), 0.0)
    inputs, sizes = b.forward.inputs, np.abs(found.dots) + errors.dots
    # what underflows may be multiplied by codes
    dots = a * errors.dots + low * inputs.logit_growth
    key = add_offset(operands.sizes.key, inputs.key_offset)
    query = add_offset(operands.sizes.query, inputs.query_offset)
    if inputs.of_logits:  # each product is off by what its entry of the other array is
        dots = dots + a * inputs.of_logits * sizes
    _add_parts(way, "query", block, at, (dots @ key, sizes @ key))
    turned = (array[..., :keys].swapaxes(-1, -2) @ query for array in (dots, sizes))
    _add_parts(way, "key", block, at, tuple(turned))
    weights = errors.weights, found.applied_weights + errors.weights
    turned = (array[..., :keys].swapaxes(-1, -2) @ np.abs(found.grad) for array in weights)
    _add_parts(way, "value", block, at, tuple(turned))
    terms = _split_logits(way, errors.logits, keys), _split_logits(way, np.abs(found.logits)
                                                                   + errors.logits, keys)
    for (name, error), (_, size) in zip(*terms, strict=True):
        sums = way.sums[name]
        for whole, part in ((sums.errors[at], error), (sums.sizes[at], size)):
            spots, total = reduce_block(part, block.place, whole.shape)
            whole[spots] += total


def _add_parts(way: _Way, name: str, block: ProblemBlock, at: int,
               parts: tuple[Array, ...]) -> None:
    """Errors and sizes (B,H,T,D) or (B,H,S,·) of a block, in the class whose index is `at`."""
    sums = way.sums[name]
    for whole, part in zip((sums.errors[at], sums.sizes[at]), parts, strict=True):
        if name == "query":
            whole[block.place] = part
        else:
            add_heads(whole, part, block.place[0], way.owners(block.place[1]))


def _count_terms(way: _Way, block: ProblemBlock, lost: Array) -> None:
    """How many terms each sum has from a block, and what hangs on rows (B,H,T) that are lost."""
    seen = block.operands.visible_array()
    keys = way.problem.sizes.S
    owners = way.owners(block.place[1])
    batch = block.place[0]
    way.sums["query"].number[block.place] = block.operands.counts[..., None]
    way.sums["query"].lost[block.place] |= lost[..., None]
    for name in CACHED_INPUTS:
        add_heads(way.sums[name].number, seen[..., :keys].sum(axis=-2)[..., None], batch, owners)
        mark_heads(way.sums[name].lost, np.asarray(lost.any(axis=-1)), batch, owners)
    every = np.broadcast_to(lost[..., None], seen.shape)
    for (name, part), (_, rows) in zip(_split_logits(way, seen, keys),
                                       _split_logits(way, every, keys), strict=True):
        # a broadcast bias is one entry for many pairs
        spots, total = reduce_block(part.astype(float), block.place, way.sums[name].number.shape)
        way.sums[name].number[spots] += total
        way.sums[name].lost[spots] |= (reduce_block(rows.astype(float), block.place,
                                                    way.sums[name].lost.shape)[1] > 0)


def _mark_claimed(way: _Way, block: ProblemBlock, each: Pass, errors: PairErrors) -> Array:
    """(B,H,T): the rows of a block of which something may be said: their gradients fit where they
    are stored. Those of hidden keys count, also where a row sees none: 0 times what has overflown
    is NaN.
    """
    operands, b, inputs = block.operands, each.roundings, each.roundings.forward.inputs
    # hidden keys, too: what overflows there becomes NaN in the sum
    # of codes themselves
    held = inputs.value_growth * add_offset(operands.held.value, inputs.value_offset)
    reach = each.dropout_growth * (np.abs(each.differentials.grad) @ held.swapaxes(-1, -2))
    fits = (reach.max(axis=-1, initial=0.0)
            <= min(b.forward.largest_sum / 4, _storable_size(b, b.precision.products)))
    fits = fits & (each.largest_seen(np.abs(each.differentials.logits))[..., 0]
                   <= _storable_size(b, b.precision.logits))
    finite = np.isfinite(errors.dots).all(axis=-1) & np.isfinite(errors.weights).all(axis=-1)
    judged = in_domain(operands, each.truth, b.forward, each.errors) & finite
    empty = np.broadcast_to(way.settled[block.place[0], None, _settled_rows(way, block.place[2])],
                            judged.shape)
    return np.asarray(np.where(operands.counts == 0, empty, judged) & fits)


def _storable_size(b: BackwardRoundings, roundings: int) -> float:
    """How large what is stored so often may be, and goes through the softmax."""
    return min(b.largest if roundings else b.forward.largest_sum, b.largest_inside) / 2


def _settled_rows(way: _Way, queries: slice) -> slice:
    """The queries of a block, where rows are told apart."""
    return queries if way.settled.shape[1] > 1 else slice(None)


def _finish_gradients(way: _Way, scale: float) -> dict[str, Gradient]:
    """The gradients by name."""
    n, b = way.problem.sizes, way.classes
    group, extra = n.H // n.Hkv, max(each.scale for each in b)
    shared = Summing(length=n.T * group, heads=group)
    ways = {"query": Summing(scale, extra, n.S), "key": replace(shared, scale=scale, extra=extra),
            "value": shared,
            BIAS: Summing(is_of_bias=True), SINKS: Summing(is_of_bias=True, is_wide=True)}
    found = {name: finish_sums(sums, ways[name], b) for name, sums in way.sums.items()}
    # these were summed along four axes, and have the shapes in which they are given
    for name, array in ((BIAS, way.problem.bias), (SINKS, way.problem.sinks)):
        if array is not None:
            each, shape = found[name], array.shape
            found[name] = Gradient(each.truth.reshape(shape), each.allowance.reshape(shape),
                                   each.claimed.reshape(shape))
    return found


def _split_past_gradients(problem: Problem, found: dict[str, Gradient]) -> Mapping[str, Gradient]:
    """Of keys and values the first are past ones, where there are any."""
    if not problem.has_past:
        return found
    parts = {"past": slice(None, problem.past), "new": slice(problem.past, None)}
    for name, earlier in zip(CACHED_INPUTS, CACHED, strict=True):
        whole = found[name]
        cut = {part: Gradient(whole.truth[:, :, keys], whole.allowance[:, :, keys],
                              whole.claimed[:, :, keys])
               for part, keys in parts.items()}
        found[earlier], found[name] = cut["past"], cut["new"]
    return found
