"""Computes the gradients of a problem by definition, and how far rounding may take an honest
backward pass from them.

What stands between the output's gradient and the sums is bounded pair by pair, in the worst case.
The derivation is docs/gradients.md, whose symbols are used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.keywords import BIAS, CACHED, SINKS
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
from attnspec.problems.problem import CACHED_INPUTS, Array, Problem

QUOTIENT_ROUNDINGS = 6
"""Roundings between the exponentials and delta = sum e·(dP / l): quotients and squares."""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A block on its way back: operands, truth and differentials in float64, and where the subject
    rounds.

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
        """The largest factor by which dropout makes products grow."""
        return 1.0 if self.factor is None else max(1.0, float(self.factor.max(initial=0.0)))

    @property
    def entry_rounding(self) -> float:
        """One rounding of what is computed entry by entry."""
        return max(self.roundings.forward.softmax, self.roundings.forward.accumulate)

    def sum_over_keys(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the sum over the keys that a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).sum(axis=-1, keepdims=True))

    def largest_seen(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the largest of the keys that a row sees."""
        return np.asarray(np.where(self.seen, array, 0.0).max(axis=-1, keepdims=True, initial=0.0))

    def heaviest_mean(self, array: Array) -> Array:
        """(B,H,T,S) -> (B,H,T,1): the largest mean of sizes under the perturbed weights."""
        heaviest = (self.truth.weights + self.errors.excess) / self.errors.least[..., None]
        return np.asarray(np.fmin(self.sum_over_keys(heaviest * array), self.largest_seen(array)))


INNER_UNDERFLOWS = 4
"""How often dP, delta, their difference and dS may underflow beside the products in delta."""


@dataclass(frozen=True, slots=True, eq=False)
class PairErrors:
    """(B,H,T,S), 0 where a key is hidden: errors of the weights that meet the output's gradient,
    of dS, and of dX.
    """

    weights: Array
    logits: Array
    dots: Array


def pair_errors(block: Pass) -> PairErrors:
    """The errors of a block, pair by pair."""
    b, p = block.roundings, block.differentials.weights
    growth = weight_growth(block)
    error = _pass_weight_error(block, growth)
    kept_error = error + b.kept * (p + error)
    difference_error = _difference_error(block, growth)
    # a product of two factors that both err: dS = P·(dP - delta)
    logits = (p + kept_error) * difference_error + kept_error * np.abs(block.differentials.centred_products)
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
    """(B,H,T,S): the error of the weights that meet values, from that of all weights."""
    if block.factor is None:
        return error
    return np.asarray(block.factor
                      * (error + block.rescaling * (block.differentials.weights + error)))


def weight_growth(block: Pass) -> Array:
    """(B,H,T,S): omega, how far a weight's logarithm may be off where the backward pass begins."""
    r, truth, errors = block.roundings.forward, block.truth, block.errors
    # the sum by which a weight was divided may have been too small by so much
    sum_growth = np.log1p(errors.excess.sum(axis=-1) / truth.total)[..., None]
    growth = np.asarray(errors.error + sum_growth + errors.divisor_error(r) + 2 * r.softmax)
    if block.roundings.precision.is_recomputed:
        # the class says that P may be formed anew, not that it is: the larger of both is allowed
        growth = np.fmax(growth, _recomputed_growth(block))
    return np.asarray(np.where(block.seen, growth, 0.0))


def _recomputed_growth(block: Pass) -> Array:
    """(B,H,T,S): the same of exp(logit - logsumexp), where the sizes of both count."""
    operands, truth, r = block.operands, block.truth, block.roundings.forward
    # the log-sum-exp is what forward passes keep, with all its own errors
    lse_error = lse_allowance(operands, truth, r, block.errors)[..., None]
    lse = np.abs(row_log_sum_exp(truth, operands))[..., None]
    size = np.abs(truth.logits) + np.where(np.isfinite(lse), lse, 0.0)
    if operands.reach is not None:  # both may have been counted from the first key
        size = size + operands.reach + operands.reach.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(logit_error(operands, truth, r) * (1 + r.argument)
                      + r.argument * (size + lse_error) + r.exp + lse_error)


def excess_weight(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): an upper bound of p·(exp(growth) - 1), also for weights that underflow."""
    p = block.differentials.weights
    total = np.maximum(block.truth.total, np.finfo(float).tiny)[..., None]
    logarithm = block.truth.shifted_logits - np.log(total)
    # exp itself, where p·expm1 would be 0 for a weight that underflowed in the truth
    high = np.exp(np.minimum(logarithm + growth, LARGEST_ARGUMENT)) - p
    excess = np.where(growth < 1, p * np.expm1(np.minimum(growth, 1.0)), high)
    return np.asarray(np.where(block.seen, excess, 0.0))


def _pass_weight_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): e_P. A weight that is divided by its own sum is at most 1, but for roundings."""
    b, p = block.roundings, block.differentials.weights
    loss = b.forward.lost_weight
    # storing P in the dtype loses what is small there
    if b.precision.weights or b.precision.kept:
        loss += b.underflow
    error = excess_weight(block, growth) + loss
    if not b.precision.is_recomputed:
        # a normalised weight lies between 0 and 1
        error = np.fmin(error, np.maximum(p, 1 - p) + block.errors.divisor_error(b.forward) + 3
                        * b.forward.softmax + loss)
    return np.asarray(np.where(block.seen, error, 0.0))


def _difference_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,S): the error of dP - delta; or of P·dP - P·delta, over P."""
    products, delta = _output_product_error(block), _delta_error(block, growth)
    # both may be multiplied by P before they are subtracted: three roundings at their own sizes
    size = (np.abs(block.differentials.products) + np.abs(block.differentials.delta) + products
            + delta)
    return np.asarray(products + delta + 3 * block.entry_rounding * size)


def _output_product_error(block: Pass) -> Array:
    """(B,H,T,S): the error of dP, the products of the output's gradient and the values."""
    b, width = block.roundings, block.operands.value.shape[-1]
    # Dv products, in any order
    inner_error = width * b.forward.accumulate
    # each product is off by what its value is
    inner_error += b.forward.inputs.of_values * (1 + inner_error)
    error = inner_error * output_product_sizes(block)
    storage_error = b.products + block.rescaling * (1 + b.products)
    error = error + storage_error * (np.abs(block.differentials.products) + error)
    loss = b.underflow if b.precision.products else 0.0
    return np.asarray(error + block.dropout_growth * (2 * width + 2) * b.forward.lost_product
                      + block.dropout_growth * loss)


def output_product_sizes(block: Pass) -> Array:
    """(B,H,T,S): M, the products of absolute values, with what is added up to make a value."""
    values = add_offset(block.operands.sizes.value, block.roundings.forward.inputs.value_offset)
    sizes = np.abs(block.differentials.grad) @ values.swapaxes(-1, -2)
    return np.asarray(sizes if block.factor is None else sizes * block.factor)


def _delta_error(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): the error of delta, whichever way it is formed."""
    # delta is the sum dO·O or the sum P·dP, which are the same number
    by_either = np.fmax(_delta_error_by_output(block), _delta_error_by_products(block))
    return np.asarray(_delta_drift(block, growth) + by_either)


def _delta_drift(block: Pass, growth: Array) -> Array:
    """(B,H,T,1): how far wrong weights move delta.

    The output's one identity, projected on its gradient: what counts is dP - delta, and no mean
    leaves the range of what it is of.
    """
    distance, errors = np.abs(block.differentials.centred_products), block.errors
    if block.roundings.precision.is_normalised:
        # as B1 of the output, whose projection on its own gradient delta is
        drift = block.sum_over_keys(errors.excess * distance) / errors.least[..., None]
        return np.asarray(np.fmin(drift, block.largest_seen(distance)))
    # weights that were not divided by their own sum may all be too large alike
    common = np.expm1(np.minimum(block.largest_seen(growth), LARGEST_ARGUMENT))
    return np.asarray(block.sum_over_keys(excess_weight(block, growth) * distance)
                      + np.abs(block.differentials.delta) * common)


def _delta_error_by_output(block: Pass) -> Array:
    """(B,H,T,1): the error of the sum dO·O, from the output's own error and from its products."""
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    width, sizes = block.differentials.grad.shape[-1], output_product_sizes(block)
    grad, divisor_error = np.abs(block.differentials.grad), block.errors.divisor_error(r)
    own = (grad * np.abs(block.truth.output)).sum(axis=-1, keepdims=True)
    rounding = ((1 + block.errors.chain * r.accumulate) * (1 + r.weights) * (1 + divisor_error)
              * (1 + r.softmax) ** 2)
    rounding = rounding * (1 + block.rescaling) * (1 + r.inputs.of_values) - 1
    inner_error = rounding * block.heaviest_mean(sizes)
    # how far wrong weights move the output, by sizes
    drift = (block.sum_over_keys(block.errors.excess * (sizes + own))
             / block.errors.least[..., None])
    output_error = np.fmin(drift, block.largest_seen(sizes) + own) + inner_error
    error = (inner_error
             + (b.of_output + (width + 1) * r.accumulate * (1 + b.of_output))
             * (own + output_error))
    error = (error + r.lost_weight * (block.sum_over_keys(sizes) + rows * own)
             + (2 * width + 2) * r.lost_product)
    # delta may be formed of the output in the accumulator, or as it was returned
    storage_loss = b.underflow if b.precision.is_of_returned else r.lost_product
    loss = (storage_loss + 2 * rows * r.lost_product) * block.dropout_growth
    return np.asarray(error + grad.sum(axis=-1, keepdims=True) * loss)


def _delta_error_by_products(block: Pass) -> Array:
    """(B,H,T,1): the error of the sum of P·dP."""
    b, r, rows = block.roundings, block.roundings.forward, block.operands.counts[..., None]
    size, error = np.abs(block.differentials.products), _output_product_error(block)
    divisor_error, chain = block.errors.divisor_error(r), block.errors.chain * block.entry_rounding
    rounding = (1 + b.kept) * (1 + divisor_error) * (1 + r.softmax) ** QUOTIENT_ROUNDINGS * (1 + chain) - 1
    loss = r.lost_weight + (b.underflow if b.precision.kept else 0.0)
    return np.asarray(block.heaviest_mean(error) + rounding * block.heaviest_mean(size + error)
                      + loss * block.sum_over_keys(size)
                      + (2 * rows + 2) * r.lost_product)


def _dots_error(block: Pass, logits: Array) -> Array:
    """(B,H,T,S): the error of dX, from that of dS (`logits`)."""
    operands, truth, b, r = block.operands, block.truth, block.roundings, block.roundings.forward
    if operands.bend is None:
        return logits
    size = np.abs(block.differentials.logits)
    product_errors = product_error(operands, truth, r) + logit_underflow(operands, r)
    # the slope is formed of a logit that errs
    slope_error = operands.bend.derivative_error(product_errors, scaled_magnitude(operands, truth),
                                              np.abs(truth.bent_dots), r)
    error = (size + logits) * slope_error + logits * block.differentials.slope
    error = error + b.bend_error * (np.abs(block.differentials.dots) + error) + 3 * b.lost_logits
    return np.asarray(np.where(block.seen, error, 0.0))


def expect_gradients(
    problem: Problem, grad: Array, precision: Precision, backward: BackwardPrecision, *,
    conventions: Mapping[str, str], scale_width: int | None = None, settled: Array | None = None,
    factor: Array | None = None,
) -> Mapping[str, Gradient]:
    """The gradient of each input, by its name, where the output's is `grad` (B,H,T,Dv).

    settled: (B,T) bool, where a row without a visible key contributes nothing, as its output is
    zeros; everywhere, if it is None. Nothing is claimed of a row that is not settled, or outside
    the domain of the bounds, nor of any key of its heads.
    factor (B,H,T,S): of weights that are dropped.
    The other arguments are those of `expect`.
    """
    own, *of_truth = erring_classes(precision, backward)
    classes = (replace(own, forward=roundings_of(problem, precision)), *of_truth)
    problem = read_entries(problem)
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is not claimed
        way = _Way(problem, grad, classes, key_heads(problem, conventions),
                   np.ones((problem.sizes.B, 1), bool) if settled is None else settled,
                   _start_sums(problem, len(classes)), factor, rescaling_error(precision))
        scales = [_add_block(way, block)
                  for block in cut_blocks(problem, conventions, scale_width)]
        scale = max(scales, default=1.0)
        return _split_past_gradients(problem, _finish_gradients(way, scale))


def erring_classes(precision: Precision,
                   backward: BackwardPrecision) -> tuple[BackwardRoundings, ...]:
    """The classes whose roundings add up: the subject's, and that of a truth no finer."""
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
    """Sums of nothing yet, by input: (B,H,T,D) for the query, and so on."""
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
    """Adds the contributions of a block to the sums; returns the size of the scale."""
    block = _hide_absent_queries(way, block)
    operands, place = block.operands, block.place
    truth = compute_truth(operands, wide_float(way.problem.dtype))
    factor = _block_factor(way, block)
    if factor is not None:
        truth = multiply_weights(truth, operands, factor)
    differentials = differentiate(operands, truth, way.grad[place], factor)
    narrow = truth.narrow()
    visible = operands.visible_array()
    rescaling = 0.0 if factor is None else way.rescaling
    passes = [Pass(operands, narrow, differentials.narrow(), b,
                   weight_error(operands, narrow, b.forward), visible, factor, rescaling)
              for b in way.classes]
    pairs = [pair_errors(each) for each in passes]
    _add_terms(way, block, differentials, way.problem.sizes.S)
    for index, (each, errors) in enumerate(zip(passes, pairs, strict=True)):
        _add_errors(way, block, each, errors, index)
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
    is_present = queries_within(way.problem)[batch, None, queries]
    visible = block.operands.visible_array() & is_present[..., None]
    operands = replace(block.operands, visible=visible, counts=visible.sum(axis=-1, dtype=float))
    return replace(block, operands=operands)


def _add_terms(way: _Way, block: ProblemBlock, differentials: Differentials, keys: int) -> None:
    """Adds the truth's share of a block.

    keys: how many there are without a sink.
    """
    operands, sums, owners = block.operands, way.sums, way.owners(block.place[1])
    real = differentials.dots.dtype.type
    a, batch = real(operands.scale), block.place[0]
    sums["query"].truth[block.place] = multiply_wide(differentials.dots, operands.key) * a
    transposed = differentials.dots[..., :keys].swapaxes(-1, -2)
    add_heads(sums["key"].truth, multiply_wide(transposed, operands.query) * a, batch, owners)
    weights = differentials.applied_weights[..., :keys].swapaxes(-1, -2)
    add_heads(sums["value"].truth, multiply_wide(weights, differentials.grad), batch, owners)
    for name, part in _split_logits(way, differentials.logits, keys):
        spots, total = reduce_block(part, block.place, sums[name].truth.shape)
        sums[name].truth[spots] += total


def _split_logits(way: _Way, logits: Array, keys: int) -> list[tuple[str, Array]]:
    """By input that is added to the logits, its share (B,H,T,·) of an array (B,H,T,S)."""
    parts = {BIAS: logits[..., :keys], SINKS: logits[..., keys:]}
    return [(name, part) for name, part in parts.items() if name in way.sums]


def _add_errors(way: _Way, block: ProblemBlock, each: Pass, errors: PairErrors,
                index: int) -> None:
    """Adds the errors' share of a block in the class with this index."""
    operands = block.operands
    differentials = each.differentials
    b = each.roundings
    keys = way.problem.sizes.S
    a = abs(float(operands.scale))
    # an underflow is absolute, and each visible key may have one
    low = np.where(each.seen, max(1.0, a) * (b.lost_logits + b.forward.lost_product), 0.0)
    inputs, sizes = b.forward.inputs, np.abs(differentials.dots) + errors.dots
    # what underflows may be multiplied by codes
    dots = a * errors.dots + low * inputs.logit_growth
    key = add_offset(operands.sizes.key, inputs.key_offset)
    query = add_offset(operands.sizes.query, inputs.query_offset)
    if inputs.of_logits:  # each product is off by what its entry of the other array is
        dots = dots + a * inputs.of_logits * sizes
    _add_parts(way, "query", block, index, (dots @ key, sizes @ key))
    transposed = (array[..., :keys].swapaxes(-1, -2) @ query for array in (dots, sizes))
    _add_parts(way, "key", block, index, tuple(transposed))
    weights = errors.weights, differentials.applied_weights + errors.weights
    transposed = (array[..., :keys].swapaxes(-1, -2) @ np.abs(differentials.grad)
                  for array in weights)
    _add_parts(way, "value", block, index, tuple(transposed))
    sizes = np.abs(differentials.logits) + errors.logits
    for (name, error), (_, size) in zip(_split_logits(way, errors.logits, keys),
                                        _split_logits(way, sizes, keys), strict=True):
        sums = way.sums[name]
        for whole, part in ((sums.errors[index], error), (sums.sizes[index], size)):
            spots, total = reduce_block(part, block.place, whole.shape)
            whole[spots] += total


def _add_parts(way: _Way, name: str, block: ProblemBlock, index: int,
               parts: tuple[Array, ...]) -> None:
    """Adds errors and sizes (B,H,T,D) or (B,H,S,·) of a block, in the class with this index."""
    sums = way.sums[name]
    for whole, part in zip((sums.errors[index], sums.sizes[index]), parts, strict=True):
        if name == "query":
            whole[block.place] = part
        else:
            add_heads(whole, part, block.place[0], way.owners(block.place[1]))


def _count_terms(way: _Way, block: ProblemBlock, lost: Array) -> None:
    """Counts the terms of each sum in a block, and marks what depends on lost rows (B,H,T)."""
    visible = block.operands.visible_array()
    keys = way.problem.sizes.S
    owners = way.owners(block.place[1])
    batch = block.place[0]
    way.sums["query"].number[block.place] = block.operands.counts[..., None]
    way.sums["query"].lost[block.place] |= lost[..., None]
    for name in CACHED_INPUTS:
        add_heads(way.sums[name].number, visible[..., :keys].sum(axis=-2)[..., None], batch,
                  owners)
        mark_heads(way.sums[name].lost, np.asarray(lost.any(axis=-1)), batch, owners)
    every = np.broadcast_to(lost[..., None], visible.shape)
    for (name, part), (_, rows) in zip(_split_logits(way, visible, keys),
                                       _split_logits(way, every, keys), strict=True):
        # a broadcast bias is one entry for many pairs
        spots, total = reduce_block(part.astype(float), block.place, way.sums[name].number.shape)
        way.sums[name].number[spots] += total
        way.sums[name].lost[spots] |= (reduce_block(rows.astype(float), block.place,
                                                    way.sums[name].lost.shape)[1] > 0)


def _mark_claimed(way: _Way, block: ProblemBlock, each: Pass, errors: PairErrors) -> Array:
    """(B,H,T): the rows of a block about which a claim is made: their gradients fit where they are
    stored.

    Those of hidden keys count, also where a row sees none: 0 times what has overflown is NaN.
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
    in_bounds = in_domain(operands, each.truth, b.forward, each.errors) & finite
    empty = np.broadcast_to(way.settled[block.place[0], None, _settled_rows(way, block.place[2])],
                            in_bounds.shape)
    return np.asarray(np.where(operands.counts == 0, empty, in_bounds) & fits)


def _storable_size(b: BackwardRoundings, roundings: int) -> float:
    """The largest number that may be stored with so many roundings, and go through the softmax."""
    return min(b.largest if roundings else b.forward.largest_sum, b.largest_inside) / 2


def _settled_rows(way: _Way, queries: slice) -> slice:
    """The queries of a block in `settled`, which may hold one number for all rows."""
    return queries if way.settled.shape[1] > 1 else slice(None)


def _finish_gradients(way: _Way, scale: float) -> dict[str, Gradient]:
    """The gradients by name of the input."""
    n, b = way.problem.sizes, way.classes
    group, extra = n.H // n.Hkv, max(each.scale for each in b)
    of_group = Summing(length=n.T * group, heads=group)
    ways = {"query": Summing(scale, extra, n.S),
            "key": replace(of_group, scale=scale, extra=extra),
            "value": of_group,
            BIAS: Summing(is_of_bias=True), SINKS: Summing(is_of_bias=True, is_wide=True)}
    gradients = {name: finish_sums(sums, ways[name], b) for name, sums in way.sums.items()}
    # these were summed along four axes, and have the shapes in which they are given
    for name, array in ((BIAS, way.problem.bias), (SINKS, way.problem.sinks)):
        if array is not None:
            each, shape = gradients[name], array.shape
            gradients[name] = Gradient(each.truth.reshape(shape), each.allowance.reshape(shape),
                                   each.claimed.reshape(shape))
    return gradients


def _split_past_gradients(problem: Problem, gradients: dict[str, Gradient]) -> Mapping[str,
                                                                                       Gradient]:
    """The gradients by name, those of keys and values divided into past and new ones."""
    if not problem.has_past:
        return gradients
    parts = {"past": slice(None, problem.past), "new": slice(problem.past, None)}
    for name, earlier in zip(CACHED_INPUTS, CACHED, strict=True):
        whole = gradients[name]
        parts_of_input = {part: Gradient(whole.truth[:, :, keys], whole.allowance[:, :, keys],
                              whole.claimed[:, :, keys])
               for part, keys in parts.items()}
        gradients[earlier], gradients[name] = parts_of_input["past"], parts_of_input["new"]
    return gradients
