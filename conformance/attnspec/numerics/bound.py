"""Bounds how far an honest implementation of a precision class may be from the truth: the worst
case, entry by entry.

The derivation is docs/numerics.md. In short: an error e_j in the logarithm of each weight moves
the output by a mean of (exp(e_j) - 1)·(v_j - o), so what counts is how far a value is from the
output, and errors common to a row cancel.

Large problems have a cheap bound for every entry that is never below the sharp one. The sharp
bound costs four products of (T,S) by (S,·) beside the two of the truth, the cheap one costs one:
it is the same, evaluated once a row, at the largest that each of its ingredients is anywhere in
the row. The rows that come closest are then looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.operands import EntryErrors, Operands, upper_norms
from attnspec.numerics.precision import WEIGHTS
from attnspec.numerics.reference import Truth, attended_range, scaled_magnitude
from attnspec.numerics.roundings import Roundings
from attnspec.numerics.stored import StoredWeightError, stored_weight_error
from attnspec.problems.problem import Array, Problem

# up to here x + x² and 1 - x are sharp enough to stand for exp(x) - 1 and exp(-x)
SMALL_ERROR = 0.05
# exp of more would overflow float64; what is cut off here is beyond every bound already
LARGEST_ARGUMENT = 700.0
ELEMENTWISE_UP_TO = 2**18  # entries of |v_j - o| that are cheap enough to be formed one by one
SQUARABLE_RANGE = (1e-100, 1e140)  # the largest |v| must lie here for squares to be trusted
UNDERFLOWN_SQUARE = 1e-300     # more than any square that underflows


@dataclass(frozen=True, slots=True, eq=False)
class WeightError:
    """The error of each attended weight before it is divided by the row's sum.

    error (B,H,T,S): of its logarithm; 0 where hidden.  worst (B,H,T): the largest of a row.
    excess (B,H,T,S): weight·(exp(error) - 1).  least (B,H,T): the sum of weight·exp(-error).
    mass (B,H,T): the sum of excess over least; beyond 1 the hull of the values is the better
    bound.
    chain (B,H,T,1): roundings of an online sum of the row's weights.
    rescales (B,H,T,1): how many of its blocks may rescale.
    normaliser (B,H,T,1): the relative error that a stored log-sum-exp gives all weights of a row;
    0, of any shape, where none is stored.
    """

    error: Array
    worst: Array
    excess: Array
    least: Array
    mass: Array
    chain: Array
    rescales: Array
    normaliser: Array

    def divisor_error(self, r: Roundings) -> Array:
        """(B,H,T,1): the relative error of a row's sum and of a stored logarithm."""
        # x / (1 - x): the computed sum stands below the true one, so that its error counts upwards
        sum_error = self.chain * r.row_sum / (1 - self.chain * r.row_sum)
        return np.asarray(sum_error + self.normaliser * (1 + sum_error))


def logit_error(operands: Operands, truth: Truth, r: Roundings) -> Array:
    """(B,H,T,S): delta, the error of each logit as it enters the softmax."""
    if operands.bend is not None:
        # a bend stands between products and bias: they are stored before it, and no bias seeds them
        error = product_error(operands, truth, r) + logit_underflow(operands, r)
        bent_size = np.abs(truth.bent_dots)
        # the bend is monotone and no steeper than 1, so that it never makes an error larger
        error = operands.bend.bent_error(error, scaled_magnitude(operands, truth), bent_size, r)
        if operands.bias is not None:
            error = (_error_with_bias(error, bent_size, np.abs(truth.logits), r)
                     + 2 * (r.lost_product + r.lost_logit))
    elif operands.bias is None or operands.only_sink:
        error = product_error(operands, truth, r)
        # nothing is added to the other logits; the sink is converted, and stored with them
        if operands.bias is not None:
            # no product makes the logit of a sink, which is the last key
            error[..., -1] += (np.abs(operands.bias[..., -1])
                               * ((1 + r.accumulate) * (1 + r.logits) - 1))
        error += logit_underflow(operands, r)
    else:
        # a bias that begins the accumulator's sum is in each of its D partial sums
        seed_error = operands.query.shape[-1] * r.accumulate if r.bias_in_accumulator else 0.0
        error = _product_sum_error(operands, r) + seed_error * np.abs(operands.bias)
        product = scaled_magnitude(operands, truth)
        error = _error_with_bias(error + r.scale * product, product, np.abs(truth.logits), r)
        error += logit_underflow(operands, r)
    if operands.reach is None:
        return error
    # what slopes add grows with the error so far: a larger sum is rounded more coarsely
    return error + slope_error(operands, truth, r, error)


TRUTH_ROUNDOFF = 2.0**-53
"""The unit roundoff of the truth's sum of a bias and what slopes add."""


def slope_error(operands: Operands, truth: Truth, r: Roundings,
                error: Array | float = 0.0) -> Array:
    """(B,H,T,S): what slopes add to the error of each logit; `error` is the error without them.

    The product is formed and stored. Then there may be one addition more, with a bias two in any
    order: no partial sum is larger than all numbers together. A bias may seed the sum of products.
    """
    assert operands.bias is not None
    assert operands.reach is not None
    reach, bias = operands.reach, np.abs(operands.bias)
    # f: some kernels add m·j, others m·(j - p), so a product as large as `reach` may be formed
    product_error = reach * ((1 + r.accumulate) * (1 + r.biased_logits) - 1)
    if r.bias_in_accumulator:
        # it is in each of the D partial sums, like a bias that begins them
        product_error = product_error + operands.query.shape[-1] * r.accumulate * reach
    largest = np.abs(truth.logits) + bias + 2 * reach + error + product_error
    return np.asarray(product_error + 2 * (r.accumulate + r.biased_logits) * largest
                      + TRUTH_ROUNDOFF * (bias + reach))


def _product_sum_error(operands: Operands, r: Roundings) -> Array:
    """(B,H,T,S): the error of the sum of products, in any order, times the scale."""
    # the scale enters by its size: a negative one made the bound negative
    a, D, sizes = abs(float(operands.scale)), operands.query.shape[-1], operands.sizes
    # D·u holds for a sum in any order, and for all D (Jeannerod and Rump): blocks and trees err less
    inner_error = r.prescale + D * r.accumulate * (1 + r.prescale)
    # each product is off by what its two entries are
    inner_error += r.inputs.of_logits * (1 + inner_error)
    per_product = a * inner_error * (1 + r.scale)
    query = add_offset(sizes.query, r.inputs.query_offset)
    key = add_offset(sizes.key, r.inputs.key_offset)
    error: Array = (query * per_product) @ key.swapaxes(-1, -2)
    if operands.entry_errors is None or not r.stored_formats:
        return error
    # codes move the entries themselves, before any rounding of their products
    return error + a * (1 + r.scale) * moved_products(operands, operands.entry_errors)


def moved_products(operands: Operands, stored_errors: EntryErrors) -> Array:
    """(B,H,T,S): how far dot products may be off where a kernel quantises query and key: |q||dk| +
    |dq|(|k| + |dk|).

    `sizes` are those of what attends: |q| + |dq|, |k| + |dk|.
    """
    sizes = operands.sizes
    return np.asarray((sizes.query - stored_errors.query) @ stored_errors.key.swapaxes(-1, -2)
                      + stored_errors.query @ sizes.key.swapaxes(-1, -2))


def add_offset(sizes: Array, offset: float) -> Array:
    """Sizes of any shape, larger by what may be added up to make an entry."""
    return sizes + offset if offset else sizes


def product_error(operands: Operands, truth: Truth, r: Roundings) -> Array:
    """(B,H,T,S): the error of the scaled and stored products alone, but for underflow."""
    error = _product_sum_error(operands, r)
    # the scale is a rounded constant, and the product is rounded again where it is stored
    error *= 1 + r.logits
    error += scaled_magnitude(operands, truth) * (r.scale * (1 + r.logits) + r.logits)
    return error


def _error_with_bias(error: Array, product: Array, logits: Array, r: Roundings) -> Array:
    """(B,H,T,S), like its arguments: the error after a bias was added, and the sum stored."""
    # d2: the sum with the bias is rounded in the accumulator
    error = error + r.accumulate * (logits + error)
    # d3: what is stored may be the product or the sum, so the larger of the two is rounded
    total_error: Array = error + r.biased_logits * (np.maximum(product, logits) + error)
    return total_error


def logit_underflow(operands: Operands, r: Roundings) -> Array:
    """(B,H,T,S) or (B,H,T,1): what a logit loses below the normal range.

    The losses are those of products, sums, storage and scaled operands.
    """
    a, D, sizes = max(1.0, abs(float(operands.scale))), operands.query.shape[-1], operands.sizes
    # an underflow is absolute: of D products and D sums, two more on the way, and the scale multiplies it
    loss: Array = (a
                   * ((2 * D + 2) * r.lost_product + r.lost_logit
                      + r.lost_input * sizes.query_sums[..., None]))
    return loss + (a * r.lost_input) * sizes.key_sums[:, :, None, :] if r.lost_input else loss


def weight_error(operands: Operands, truth: Truth, r: Roundings) -> WeightError:
    """The error of the weights, before the division.

    An error common to a row (a running maximum that is off) is at most the largest t_j + delta_j,
    since a maximum of perturbed logits exceeds the true one by no more than that.
    """
    # a finite mask constant has a huge error and no influence: the maximum is that of t + delta
    error = logit_error(operands, truth, r)
    counts = operands.counts[..., None]
    visible = operands.visible
    raised_logits = truth.shifted_logits + error
    if visible is not None:
        raised_logits = np.where(visible, raised_logits, 0.0)
    common = raised_logits.max(axis=-1, keepdims=True, initial=0.0)
    rescales = count_rescales(operands, r)
    error = logarithm_error(error, np.abs(truth.shifted_logits), common, rescales, r)
    if visible is not None:
        error = np.where(visible, error, 0.0)
    worst = error.max(axis=-1, initial=0.0)
    excess, least = _perturb_weights(error, float(worst.max(initial=0.0)), truth, visible)
    return WeightError(error, worst, excess, least, excess.sum(axis=-1) / least,
                       counts + 3 * rescales, rescales, normaliser_error(truth, visible, r))


def logarithm_error(error: Array, distance: Array, common: Array, rescales: Array,
                    r: Roundings) -> Array:
    """(B,H,T,S): the error of a weight's logarithm.

    error: of its logit, which is written over.  distance: how far the logit lies from the row's
    largest.  common, rescales (B,H,T,1): how far the computed maximum may be off, and the number
    of rescales.
    """
    # three roundings: the subtraction, the product with log2(e), and that constant
    error *= 1 + r.argument
    error += r.argument * distance
    # a maximum that is off moves every argument; those of online blocks telescope, so that |t| is paid once
    error += r.argument * common + r.exp + 2 * rescales * (r.exp + r.softmax)
    return error


def normaliser_error(truth: Truth, visible: Array | None, r: Roundings) -> Array:
    """(B,H,T,1): the relative error of exp(-logsumexp) where the log-sum-exp is stored.

    The stored number is off by its roundings, and log(total) enters the exponential's argument
    besides what `weight_error` counts. A row shares this error, and no division takes it out.
    """
    # who divides by the row's own sum stores no logarithm of it
    if not r.logsumexp:
        return np.zeros(())
    # the row's largest exponential is 1, so that the sum is at least 1 where a key is seen
    logarithm = np.log(np.maximum(truth.total, 1.0))
    log_sum_exp = np.abs(_row_maximum(truth, visible) + logarithm)
    argument_error = r.logsumexp * np.where(np.isfinite(log_sum_exp), log_sum_exp,
                                            0.0) + r.argument * logarithm
    return np.expm1(np.minimum(argument_error, LARGEST_ARGUMENT))[..., None]


def count_rescales(operands: Operands, r: Roundings) -> Array:
    """(B,H,T,1): the most rescales of an online softmax: one a block, less one."""
    # the first block rescales nothing
    blocks = -(-operands.shape[3] // r.block)
    rescales: Array = np.maximum(np.minimum(operands.counts[..., None], blocks) - 1, 0)
    return rescales


def _perturb_weights(error: Array, worst: float, truth: Truth,
                     visible: Array | None) -> tuple[Array, Array]:
    """Upper and lower sums of perturbed weights: (B,H,T,S) weight·(exp(error) - 1), never less,
    and (B,H,T) the sum of weight·exp(-error), never more.
    """
    # below this, x + x² is above exp(x) - 1, and 1 - x below exp(-x): two products in place of two exponentials
    if worst <= SMALL_ERROR:
        loss = truth.weights * error
        return loss * (1 + error), truth.total - loss.sum(axis=-1)
    # an underflown weight may come back: its own exponent counts, not its value 0
    # p·(exp(eta) - 1) would be 0 where p underflowed, though an honest weight may not have
    high = np.exp(np.minimum(truth.shifted_logits + error, LARGEST_ARGUMENT)) - truth.weights
    excess = np.where(error < 1, truth.weights * np.expm1(np.minimum(error, 1.0)), high)
    # no weight of the denominator is larger than that of the row's top key
    low = np.exp(np.minimum(truth.shifted_logits - error, 0.0))
    if visible is not None:
        excess, low = np.where(visible, excess, 0.0), np.where(visible, low, 0.0)
    return excess, low.sum(axis=-1)


def output_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,Dv): D, the bound of the output, with no meaning where `in_domain` is False."""
    # B1, the sum of excess·|v_j - o| over least: entry by entry, or of large problems an upper bound by squares
    # entry by entry is sharp; by squares (Cauchy and Schwarz) it costs a quarter on normal data, and less memory
    is_squarable = SQUARABLE_RANGE[0] < operands.sizes.largest_value < SQUARABLE_RANGE[1]
    if is_squarable and errors.excess.size * operands.value.shape[-1] > ELEMENTWISE_UP_TO:
        drift = _drift_by_squares(operands.value, truth.output, errors)
    else:
        drift = _drift_by_entries(operands.value, truth.output, errors)
    # A1, the mean of |v_j| under the heaviest weights
    reach = ((truth.weights + errors.excess) @ operands.sizes.value) / errors.least[..., None]
    # logits may be off by 30 and more: then the truth's own rounding of o counts in v_j - o
    if r.stored_formats:
        drift = (drift + own_rounding(operands)
                 * (reach + np.abs(truth.output) * errors.mass[..., None]))
    # no mean leaves the hull of what it is a mean of, however wrong the weights
    drift, reach = _limit_to_hull(operands, truth, errors, drift, reach)
    if r.stored_formats:
        drift, reach = _add_storage_errors(operands, truth, r, errors, (drift, reach))
    return assemble_allowance(operands, np.abs(truth.output), errors, r, drift=drift, reach=reach)


def own_rounding(operands: Operands) -> float:
    """How far, relatively, a float64 output or weight may be from the exact truth."""
    # the sums of S terms in numerator and denominator, and a few roundings behind them
    return float((2 * operands.shape[3] + 16) * 2.0**-52)


def _add_storage_errors(operands: Operands, truth: Truth, r: Roundings, errors: WeightError,
                        both: tuple[Array, Array],
                        ) -> tuple[Array, Array]:
    """B1 and A1, (B,H,T,Dv) each, with what stored values and weights add to them."""
    drift, reach = both
    # a mean of what values are off by, under the heaviest weights
    if operands.entry_errors is not None:
        drift = drift + _heaviest_mean(operands.entry_errors.value, operands, truth, errors)
    weight_error = weight_storage_error(truth, r, errors, operands.visible)
    if weight_error is None:
        return drift, reach
    loss = weight_error.distances @ operands.sizes.value
    if not r.stored_formats[WEIGHTS].summed:
        return drift + loss, reach + loss
    # what a row is divided by is the sum of what is stored: the output stays a mean of values
    output_error = (loss + (np.abs(truth.output) + drift)
                    * weight_error.mass) / (1 - weight_error.mass)
    # where codes may take all of the sum away, nothing but the hull holds; also where it is NaN
    rows = ~(weight_error.mass[..., 0] < 1)
    if rows.any() and operands.shape[3]:
        output_error[rows] = 2 * attended_range(operands.sizes.value, operands.visible, rows)[0]
    return drift + output_error, reach + loss


def _heaviest_mean(sizes: Array, operands: Operands, truth: Truth, errors: WeightError) -> Array:
    """(B,H,T,Dv): the largest mean, under honest weights, of sizes (B,H,S,Dv) that are never
    negative.

    No mean is larger than the largest size that is attended.
    """
    mean = ((truth.weights + errors.excess) @ sizes) / errors.least[..., None]
    rows = ~(errors.mass <= 1)
    if rows.any() and operands.shape[3]:
        mean[rows] = np.fmin(mean[rows], attended_range(sizes, operands.visible, rows)[0])
    return np.asarray(mean)


def weight_storage_error(truth: Truth, r: Roundings, errors: WeightError,
                         visible: Array | None) -> StoredWeightError | None:
    """What storing the weights in another format may do; None where they are not so stored."""
    storage = r.stored_formats.get(WEIGHTS)
    if storage is None:
        return None
    heaviest = truth.weights + errors.excess
    if visible is not None:
        heaviest = np.where(visible, heaviest, 0.0)
    return stored_weight_error(storage, heaviest, truth.total + errors.excess.sum(axis=-1),
                               errors.least)


def assemble_allowance(
    operands: Operands, size: Array, errors: WeightError, r: Roundings, *, drift: Array,
    reach: Array,
) -> Array:
    """(B,H,T,Dv), like its arguments: D, from |o|, B1 and A1."""
    # gs: n additions, and three roundings for each online rescale of the sum so far
    sum_error = errors.chain * r.accumulate
    divisor_error = errors.divisor_error(r)
    answer = size
    size = add_offset(size, r.inputs.value_offset)
    reach = add_offset(reach, r.inputs.value_offset)
    # B2: both sums err, numerator and denominator
    rounding = (reach * (((1 + sum_error) * (1 + r.weights) - 1) * (1 + divisor_error))
               + (size + drift) * divisor_error)
    # the division may be two roundings: a reciprocal, and the product with it
    rounding += (size + drift + rounding) * (r.softmax * (2 + r.softmax))
    inner_error = drift + rounding + lost_weights(operands, size, r)
    # a mean of values that are off by so much, heaviest weights and their roundings included
    if r.inputs.of_values:
        inner_error += r.inputs.of_values * (reach + rounding)
    # what is returned is rounded once more, at the size that it may have by then
    allowance: Array = inner_error + r.output * (answer + inner_error) + r.lost_output
    return allowance


def _drift_by_entries(value: Array, o: Array, errors: WeightError) -> Array:
    """(B,H,T,Dv): B1 as it is defined, a few columns of the values (B,H,S,Dv) at a time."""
    drift, step = np.empty_like(o), max(1, ELEMENTWISE_UP_TO // max(1, errors.excess.size))
    for start in range(0, value.shape[-1], step):
        columns = slice(start, start + step)
        distance = np.abs(value[:, :, None, :, columns] - o[:, :, :, None, columns])
        drift[..., columns] = (errors.excess[..., None, :] @ distance)[..., 0, :]
    drift /= errors.least[..., None]
    return drift


def _drift_by_squares(value: Array, o: Array, errors: WeightError) -> Array:
    """(B,H,T,Dv): an upper bound of B1 by matrix products: sqrt(sum e)·sqrt(sum e·(v - o)²).

    What cancellation may take away is added.
    """
    excess, S = errors.excess, value.shape[-2]
    mass = errors.mass[..., None] * errors.least[..., None]
    squares, shift = excess @ (value * value), o * o * mass
    # what float64 loses where o² is taken off a sum of S squares is added, so that the bound is never too small
    guard = (2 * S + 16) * 2.0**-52
    spread = (np.maximum(squares - 2 * o * (excess @ value) + shift, 0.0)
              + guard * (squares + shift))
    # Cauchy and Schwarz: sum e·|v - o| is at most sqrt(sum e)·sqrt(sum e·(v - o)²)
    drift: Array = (np.sqrt(mass) * np.sqrt(spread + mass * UNDERFLOWN_SQUARE)
                    / errors.least[..., None])
    return drift


def _limit_to_hull(
    operands: Operands, truth: Truth, errors: WeightError, drift: Array, reach: Array,
) -> tuple[Array, Array]:
    """Both (B,H,T,Dv), no larger than the hull of the attended values allows."""
    rows = ~(errors.mass <= 1)
    if not rows.any() or operands.shape[3] == 0:
        return drift, reach
    top, bottom = attended_range(operands.value, operands.visible, rows)
    o = truth.output[rows]
    # fmin: what overflowed became NaN
    drift[rows] = np.fmin(drift[rows], np.maximum(top - o, o - bottom))
    reach[rows] = np.fmin(reach[rows], np.maximum(np.abs(top), np.abs(bottom)))
    return drift, reach


def lost_weights(operands: Operands, size: Array, r: Roundings) -> Array:
    """(B,H,T,Dv): B3, what underflowing weights and products lose."""
    sizes, counts, visible = operands.sizes, operands.counts[..., None], operands.visible
    if visible is None:
        visible_values = sizes.value_sums[:, :, None, :]
    else:
        visible_values = visible.astype(np.float64) @ sizes.value
    # a weight that underflows is missing from the numerator, |v|, and from the denominator, |o|
    loss: Array = r.lost_weight * (visible_values + counts * size) + 2 * counts * r.lost_product
    return loss


def in_domain(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T): the rows with a claim: they see a key, and no declared storage can overflow."""
    summable = ((errors.chain * max(r.accumulate, r.row_sum) < 1)
                & (errors.normaliser <= 1))[..., 0]
    # the sum of the sizes of a head's values, hidden ones too, cannot overflow the accumulator
    sums = operands.held.value_sums.max(axis=-1, initial=0.0)[..., None]
    sums = add_offset(sums, r.inputs.value_offset * operands.shape[3]) * r.inputs.value_growth
    # half of the range leaves room for the roundings of the sum
    domain: Array = (operands.usable & (operands.counts > 0) & summable
                     & (sums <= r.largest_sum / 2))
    # a scale below the normal range of its storage is not rounded relatively
    a = abs(float(operands.scale))
    if a != 0 and not r.scale_range[0] <= a <= r.scale_range[1]:
        return np.zeros_like(domain)
    return domain & _logits_fit(operands, truth, r)


def _logits_fit(operands: Operands, truth: Truth, r: Roundings) -> Array:
    """(B,H,T), or () where the largest entries settle it: whether no logit overflows.

    Hidden keys count: -inf added to an overflown logit is NaN. A logit far below the largest may
    go to -inf, since its weight is 0 either way.
    """
    a, sizes, logits = max(1.0, abs(float(operands.scale))), operands.held, truth.logits
    # by how much a scaled dot product may be larger where it is formed, or where it is bent
    growth = r.inputs.logit_growth * (1.0 if operands.bend is None else operands.bend.growth)
    largest_query = sizes.largest_query + r.inputs.query_offset
    largest_key = sizes.largest_key + r.inputs.key_offset
    largest_addend = sum(float(np.abs(each).max(initial=0.0))
                         for each in (operands.bias, operands.reach)
                if each is not None)
    largest_logit = (growth * a * operands.query.shape[-1] * largest_query * largest_key
                     + largest_addend)
    if (max(largest_query, largest_key) * a <= r.largest_prescaled
        and largest_logit <= r.largest_logit / 4):
        return np.ones((), bool)
    dots = np.abs(operands.query @ operands.held_key.swapaxes(-1, -2)).max(axis=-1, initial=0.0)
    query = add_offset(sizes.query, r.inputs.query_offset)
    key = add_offset(sizes.key, r.inputs.key_offset)
    products = (query @ key.swapaxes(-1, -2)).max(axis=-1, initial=0.0)
    # with a zero point, products of codes are formed before it is taken off
    if r.inputs.query_offset or r.inputs.key_offset:
        dots = np.maximum(dots, products)
    product_error = products * (r.prescale + 2 * operands.query.shape[-1] * r.accumulate)
    if operands.entry_errors is not None:
        # a dot product of codes may be larger than that of the entries
        product_error = product_error + products
    # storage rounds upwards, too
    largest_product = (dots + product_error) * (1 + r.scale + r.biased_logits)
    # the scale may be multiplied into query or key, whichever is larger
    largest_scaled = (np.maximum(sizes.query.max(axis=-1, initial=0.0),
                         sizes.key.max(axis=(-1, -2), initial=0.0)[..., None]) * a)
    attended_logits = (logits if operands.visible is None else np.where(operands.visible, logits,
                                                                        -np.inf))
    top = attended_logits.max(axis=-1, initial=-np.inf)
    error = np.where(attended_logits > 0, logit_error(operands, truth, r), 0.0).max(axis=-1,
                                                                                    initial=0.0)
    # partial sums may be as large as the sum of sizes, whatever the dot product comes to
    storage: Array = (products + product_error <= r.largest_sum) & (largest_scaled
                                                                    <= r.largest_prescaled)
    largest_product = largest_product * a * growth
    fits: Array = (storage & (np.maximum(largest_product, top + error) <= r.largest_logit)
                   & (top >= -r.largest_logit / 2))
    return fits


# Large problems


LONG_DOUBLE_UP_TO = 2**25
"""Multiply-adds B·H·T·S·(D+Dv) up to which a float64 subject's truth is in long double: 1/8 s."""

SHARP_UP_TO = 2**26
"""Logits B·H·T·S up to which every row is held to the sharp bound: some four seconds."""

MOST_CLOSEST_QUERIES = 8
"""On a screened problem, so many queries of each head are judged sharply, the closest ones."""

LARGEST_ERROR = 0.25
"""The error of a weight's logarithm beyond which the cheap bound says too little."""

UPWARD_MARGIN = 1 + 1e-9
"""More than what the roundings of these formulas themselves may take away."""


def needs_screening(problem: Problem) -> bool:
    """Whether a problem is so large that it is screened."""
    n = problem.sizes
    logits = n.B * n.H * n.T * n.S
    return (logits > SHARP_UP_TO
            or (problem.dtype is DType.FLOAT64 and logits * (n.D + n.Dv) > LONG_DOUBLE_UP_TO))


def screening_allowance(operands: Operands, truth: Truth,
                        r: Roundings) -> tuple[Array, Array] | None:
    """An upper bound of `output_allowance` (B,H,T,Dv), and the rows (B,H,T) on which there is a
    claim.

    None where this would say too little, so that the sharp bound is needed.
    """
    # the slope is least where logits are largest: nothing is gained from maxima
    if operands.bend is not None:
        return None
    if r.stored_formats:  # what storing does is worked out entry by entry
        return None
    error, rescales = _largest_error(operands, truth, r)
    # one row that errs more takes its whole block to the sharp bound
    if not (error <= LARGEST_ERROR).all():
        return None
    growth, total = error * (1 + error), truth.total[..., None]
    least = total * (1 - error)
    errors = WeightError(error, error[..., 0], growth * total, least[..., 0],
                         (growth / (1 - error))[..., 0],
                         operands.counts[..., None] + 3 * rescales, rescales,
                         normaliser_error(truth, operands.visible, r))
    drift, reach = _drift_and_reach(operands, truth, growth / (1 - error),
                                    (1 + growth) / (1 - error))
    # hidden values too: what underflows is next to nothing
    all_visible = replace(operands, visible=None)
    allowance = assemble_allowance(all_visible, np.abs(truth.output), errors, r, drift=drift,
                                   reach=reach)
    return UPWARD_MARGIN * allowance, in_domain(operands, truth, r, errors)


def _largest_error(operands: Operands, truth: Truth, r: Roundings) -> tuple[Array, Array]:
    """(B,H,T,1) each: a bound of the errors of a row's logarithms, and the most rescales."""
    # every step of D grows with its ingredients, so that D of the maxima is no less than any key's D
    largest, alike = _row_maxima(operands, truth)
    error = UPWARD_MARGIN * logit_error(largest, alike, r)
    rescales = count_rescales(operands, r)
    # the maximum of what is computed is off by no more than the worst of the logits
    return logarithm_error(error.copy(), alike.shifted_logits, error, rescales, r), rescales


def _row_maxima(operands: Operands, truth: Truth) -> tuple[Operands, Truth]:
    """The problem as if each row had one key (S = 1), in all respects as large as its largest."""
    sizes = operands.sizes
    query = upper_norms(operands.query)[..., None]
    key = sizes.key_norms.max(axis=-1, initial=0.0)[..., None, None]
    sums = sizes.key_sums.max(axis=-1, initial=0.0)[..., None]
    sizes = replace(sizes, query=query, key=key, key_sums=sums)
    bias = None if operands.bias is None else _row_magnitude(operands.bias)
    reach = None if operands.reach is None else _row_magnitude(operands.reach)
    dots, logits, far = (_row_magnitude(array)
                         for array in (truth.dots, truth.logits, truth.shifted_logits))
    alike = Truth(dots, dots, logits, far, truth.total[..., None], truth.total, truth.output)
    return replace(operands, sizes=sizes, bias=bias, reach=reach, visible=None), alike


def _row_magnitude(array: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the largest absolute value of each row."""
    top = array.max(axis=-1, keepdims=True, initial=0.0)
    bottom = array.min(axis=-1, keepdims=True, initial=0.0)
    size: Array = np.maximum(top, -bottom)
    return size


def _drift_and_reach(operands: Operands, truth: Truth, excess: Array,
                     heaviest: Array) -> tuple[Array, Array]:
    """(B,H,T,Dv) each: upper bounds of B1 and A1.

    They follow from the mean and the variance of the values under the true weights.
    """
    value = operands.value
    o = truth.output
    total = np.where(truth.total == 0, 1, truth.total)[..., None]
    # squares of it neither under- nor overflow
    unit = 2.0 ** np.frexp(max(operands.sizes.largest_value, 1e-300))[1]
    mean = (truth.weights @ np.square(value / unit)) / total
    # mean and square cancel: what float64 may lose by that is added, twice over
    guard = 4 * (2 * value.shape[-2] + 16) * 2.0**-52
    square = np.square(o / unit)
    variance = np.maximum(mean - square, 0.0) + guard * (mean + square) + 1e-300
    return excess * unit * np.sqrt(variance), heaviest * unit * np.sqrt(mean * (1 + guard)
                                                                        + 1e-300)


def find_closest_queries(array: Array, truth: Array, allowance: Array, is_claimed: Array) -> Array:
    """The sorted indices along T of the queries (B,H,T,Dv) that come closest to the allowance."""
    with np.errstate(all="ignore"):
        ratio = np.where(is_claimed[..., None], np.abs(array - truth) / allowance, 0.0)
    # a NaN comes closest of all
    worst = np.where(np.isnan(ratio), np.inf, ratio).max(axis=(0, 1, 3), initial=0.0)
    return np.sort(np.argsort(-worst, kind="stable")[:MOST_CLOSEST_QUERIES])


# The log-sum-exp of a row


LOG_ULPS = 3
"""OpenCL's bound of a logarithm's error, like those of exp and tanh; 1 ulp is 2u."""

BASE_TWO_ROUNDINGS = 2
"""A logarithm to base two is multiplied by a rounded ln(2); a maximum likewise."""


def row_log_sum_exp(truth: Truth, operands: Operands) -> Array:
    """(B,H,T): the natural log-sum-exp of a row's logits; -inf where it sees no key."""
    # the maximum is taken off and added again, so that its own error cancels
    lse: Array = _row_maximum(truth, operands.visible) + np.log(truth.total)
    return lse


def _row_maximum(truth: Truth, visible: Array | None) -> Array:
    """(B,H,T): the row's largest attended logit; -inf where there is none."""
    visible_logits = truth.logits
    if visible is not None:
        visible_logits = np.where(visible, truth.logits, -np.inf)
    largest: Array = visible_logits.max(axis=-1, initial=-np.inf)
    return largest


def lse_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T): how far an honest log-sum-exp may be from the truth."""
    up = np.log1p(errors.excess.sum(axis=-1) / truth.total)
    down = np.log(truth.total / errors.least)
    # a relative error x of the sum is -log(1 - x) of its logarithm
    sum_error = -np.log1p(-(errors.chain * r.row_sum)[..., 0])
    error = np.maximum(up, down) + sum_error
    storage = weight_storage_error(truth, r, errors, operands.visible)
    if storage is not None and r.stored_formats[WEIGHTS].summed:
        # the sum is one of codes there, which may have lost so much
        error = error - np.log1p(-np.minimum(storage.mass[..., 0], 1.0))
    logarithm = np.abs(np.log(truth.total))
    largest = np.abs(_row_maximum(truth, operands.visible))
    # 1 ulp is two roundoffs; ln(2) and the product with it are two more
    error = error + (2 * LOG_ULPS + BASE_TWO_ROUNDINGS) * r.softmax * (logarithm + error)
    # a maximum that is kept in base two is converted twice, there and back
    error = (error + 2 * BASE_TWO_ROUNDINGS * r.softmax
             * (largest + _maximum_error(operands, truth, errors)))
    size = np.abs(row_log_sum_exp(truth, operands))
    # the maximum is added to the logarithm
    error = error + r.softmax * (size + error)
    # what a row counted from the first key has too much is taken off again
    if operands.reach is not None:
        reach = operands.reach.max(axis=-1, initial=0.0)
        error = error + r.softmax * (reach + (size + reach + error))
    # it is returned in float32 at the coarsest; who stores it more coarsely says so
    allowance: Array = error + (r.lse + r.logsumexp) * (size + error)
    return allowance


def _maximum_error(operands: Operands, truth: Truth, errors: WeightError) -> Array:
    """(B,H,T): how far the computed largest logit may be from the true one."""
    raised_logits = truth.shifted_logits + errors.error
    if operands.visible is not None:
        raised_logits = np.where(operands.visible, raised_logits, 0.0)
    error: Array = raised_logits.max(axis=-1, initial=0.0)
    return error
