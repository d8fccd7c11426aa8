"""Says what an honest subject answers, and how far from it rounding may take the answer."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.core.nouns import DType
from attnspec.numerics.bound import (
    WeightError,
    in_domain,
    logit_underflow,
    lost_weights,
    lse_allowance,
    output_allowance,
    own_rounding,
    product_error,
    row_log_sum_exp,
    screening_allowance,
    slope_error,
    weight_error,
    weight_storage_error,
)
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.operands import LogitBend, Operands, read_entries, roundings_of
from attnspec.numerics.precision import WEIGHTS, Precision, assumed_precision
from attnspec.numerics.reference import (
    Truth,
    compute_truth,
    cut_blocks,
    divisor,
    is_wider,
    join_blocks,
    scaled_magnitude,
    wide_float,
)
from attnspec.numerics.roundings import Roundings, roundings
from attnspec.numerics.stored import add_rescaling, cut_stored_blocks, stored_arrays
from attnspec.numerics.stored_chance import (
    shared_query_squares,
    spread_of_stored,
    squares_of_stored,
    strain_of_query,
    sure_of_stored,
)
from attnspec.problems.problem import Array, LayerProblem, Problem


def inner_problem(problem: LayerProblem) -> Problem:
    """The attention inside a layer, on projected inputs, in float64 (where they are exact)."""
    heads, kv_heads = problem.heads, problem.kv_heads
    query = _project_heads(problem, problem.query, "query", heads)
    key = _project_heads(problem, problem.key, "key", kv_heads)
    value = _project_heads(problem, problem.value, "value", kv_heads)
    return Problem(problem.dtype, query, key, value, **problem.given).but(**acting_on(Acts.ANSWER))


def _project_heads(problem: LayerProblem, array: Array, name: str, heads: int) -> Array:
    """(B,T,M) or (B,S,M), projected and split into heads: (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv)."""
    projection = array.astype(np.float64) @ problem.params[f"w_{name}"].astype(np.float64)
    if f"b_{name}" in problem.params:
        projection = projection + problem.params[f"b_{name}"].astype(np.float64)
    B, length, width = projection.shape
    return projection.reshape(B, length, heads, width // heads).swapaxes(1, 2)


def concat_heads(array: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv): head h owns the columns h·Dv … (h+1)·Dv-1."""
    B, H, T, Dv = array.shape
    return array.swapaxes(1, 2).reshape(B, T, H * Dv)


def project_output(problem: LayerProblem, r: Roundings, output: Array,
                   allowance: Array) -> tuple[Array, Array]:
    """Output and allowance, both (B,T,M), after the output projection of (B,H,T,Dv).

    The sum of H·Dv products may be seeded with the bias; it is rounded, and rounded again when the
    bias is added.
    """
    heads, slack = concat_heads(output), concat_heads(allowance)
    if "w_out" not in problem.params:
        return heads, slack
    weight = problem.params["w_out"].astype(np.float64)
    bias = problem.params["b_out"].astype(np.float64) if "b_out" in problem.params else np.zeros(1)
    size = np.abs(weight)
    product = heads @ weight.astype(heads.dtype)
    largest_sum = (np.abs(heads).astype(np.float64) + slack) @ size + np.abs(bias)
    # the errors of the heads pass through, and H·Dv products and a bias are added up
    error = (slack @ size + (len(weight) + 1) * r.accumulate * largest_sum
             + 2 * len(weight) * r.lost_product)
    # a product may be stored before the bias is added, and the sum is stored again
    error += r.output * (np.abs(product).astype(np.float64) + error) + r.lost_output
    error += r.output * (np.abs(product + bias).astype(np.float64) + error) + r.lost_output
    return product + bias, error


def projection_fits(problem: LayerProblem, r: Roundings, output: Array) -> Array:
    """(B,T): whether the output projection can overflow nowhere."""
    if "w_out" not in problem.params:
        return np.ones((output.shape[0], output.shape[2]), dtype=bool)
    sums = (np.abs(concat_heads(output)).astype(np.float64)
            @ np.abs(problem.params["w_out"].astype(np.float64)))
    fits: Array = sums.max(axis=-1, initial=0.0) <= min(r.largest_sum, r.largest_output) / 2
    return fits


ALL_PARTS = frozenset({"output", "weights", "logits"})


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """The truth (float64; long double for a float64 subject), with its allowance (float64), and
    where it counts.

    output, output_allowance: (B,H,T,Dv); of a layer (B,T,M).
    weights, weights_allowance: (B,H,T,S); both exactly 0 where a key is hidden.
    logits, logits_allowance: (B,H,T,S), logits less the row's largest (hidden: -inf); the
    allowance is that of log(weight) less the top key's log(weight), infinite where the weight may
    underflow.
    row_sum_allowance: (B,H,T), how far an honest row of weights may sum from 1.
    visible: (B,H,T,S) bool, with weights, logits and what is typical, or asked for alone.
    empty: (B,H,T) bool, rows without a visible key; their truth is written as zeros.
    claimed: (B,H,T) bool, rows that are not empty and lie in the domain of the bound. Elsewhere
    nothing may be judged.
    output_claimed: the same for `output`: `claimed` itself; of a layer (B,T), where all heads are.
    typical_spread, typical_sure (B,H,T,Dv), typical_strain (B,H,T,1): what `typical_allowance` is
    made of.
    lse, lse_allowance: (B,H,T), where they are asked for, the natural logarithm; -inf on rows
    without a visible key.
    gradients: by name of the input, where they are asked for, alone. What was not asked for
    (`parts`; the row sums come with the weights, the output with what is typical) has length 0
    along every axis.
    """

    output: Array
    output_allowance: Array
    weights: Array
    weights_allowance: Array
    logits: Array
    logits_allowance: Array
    row_sum_allowance: Array
    visible: Array
    empty: Array
    claimed: Array
    output_claimed: Array
    typical_spread: Array
    typical_strain: Array
    typical_sure: Array
    is_screened: bool = False
    lse: Array | None = None
    lse_allowance: Array | None = None
    gradients: Mapping[str, Gradient] | None = None

    def typical_allowance(self, false_alarm: float) -> Array:
        """(B,H,T,Dv): the typical allowance, which an honest output exceeds anywhere with at most
        this probability.

        It holds where values are generic. Every entry counts, and every weight behind it, since
        its error is taken to be small.
        """
        # each entry gets an equal share of the rate, and so does each weight behind it
        spread = hoeffding_multiple(self.output.size + self.visible.size, false_alarm)
        parts = Typical(self.typical_spread, self.typical_strain, self.typical_sure)
        return parts.allowance(self.output_allowance, spread)


def expect(
    problem: Problem, precision: Precision, *, conventions: Mapping[str, str],
    scale_width: int | None = None,
    rows: Array | None = None, parts: frozenset[str] = ALL_PARTS, screens: bool = False,
) -> Expectation:
    """The truth and the allowances of a problem: output (B,H,T,Dv), weights and logits (B,H,T,S);
    see `Expectation`.

    conventions: `causal_alignment`, `mask_with_causal` and `grouped_heads` are heeded; absent or
    undefined, the recommended answer is.
    scale_width: the width whose 1/sqrt is the default scale (None: D).
    rows: the indices along T to judge; the T axes of the result are then as long as `rows`.
    parts: what to compute, for speed; `typical` must be asked for, and is for values without
    structure only.
    screens: look at every entry, but cheaply: the truth is in float64 for a float64 subject too,
    and allowances may be larger than need be; they pay for the truth's own error.
    """
    # codes stand for numbers: the definition knows those alone
    subject, attended_problem = roundings_of(problem, precision), read_entries(problem)
    sizes = attended_problem.sizes
    T = sizes.T if rows is None else len(rows)
    every_block = functools.partial(cut_blocks, attended_problem)
    if subject.stored_formats:
        formats = stored_arrays(problem, subject)
        subject = add_rescaling(subject, attended_problem, formats)
        every_block = functools.partial(cut_stored_blocks, attended_problem, subject)
    work_out = functools.partial(_expect_cheaply if screens else _expect_sharply, problem.dtype,
                                 subject, parts)
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is left out by `claimed`
        block_fields = ((block.place, work_out(block.operands))
                 for block in every_block(conventions, scale_width, rows))
        all_fields: dict[str, Any] = dict(join_blocks((sizes.B, sizes.H, T), block_fields))
        return Expectation(**all_fields, is_screened=screens)


_NONE, _NO_ROWS = np.zeros((0, 0, 0, 0)), np.zeros((0, 0, 0))
EMPTY_FIELDS: dict[str, Array] = {
    each.name: _NONE for each in fields(Expectation)
    if each.name not in {"is_screened", "lse", "lse_allowance", "gradients"}}
EMPTY_FIELDS["row_sum_allowance"] = _NO_ROWS


def expect_gradients_alone(gradients: Mapping[str, Gradient]) -> Expectation:
    """An expectation of gradients and nothing else."""
    every: dict[str, Any] = dict(EMPTY_FIELDS)
    return Expectation(**every, gradients=gradients)


def expect_layer(
    problem: LayerProblem, precision: Precision, *, conventions: Mapping[str, str],
    parts: frozenset[str] = ALL_PARTS,
) -> Expectation:
    """The same for a layer: output (B,T,M), and all else of the attention inside."""
    # the projections are exact by the choice of entries, so that attention inside is judged as any
    # other
    attention = expect(inner_problem(problem), precision, conventions=conventions,
                    parts=parts | {"output"})
    r = roundings(precision)
    with np.errstate(all="ignore"):
        output, allowance = project_output(problem, r, attention.output,
                                           attention.output_allowance)
        fits = projection_fits(problem, r, attention.output)
    is_claimed = attention.claimed.all(axis=1) & fits & np.isfinite(allowance).all(axis=-1)
    return replace(attention, output=output, output_allowance=allowance, output_claimed=is_claimed)


def _expect_cheaply(dtype: DType, r: Roundings, parts: frozenset[str],
                    operands: Operands) -> dict[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…): a float64 truth, with the cheap bound if
    it is good enough.
    """
    truth = compute_truth(operands, np.float64)
    classes = [r]
    if dtype is DType.FLOAT64:
        classes.append(roundings(assumed_precision(DType.FLOAT64)))
    bounds = list[tuple[Array, Array]]()
    for each in classes:
        bound = screening_allowance(operands, truth, each) if parts == {"output"} else None
        if bound is None:
            return _expected_fields(operands, truth, classes, parts)
        bounds.append(bound)
    slack = _sum_allowances(allowance for allowance, _ in bounds)
    is_claimed = bounds[0][1] & np.isfinite(slack).all(axis=-1)
    return {**EMPTY_FIELDS, "output": truth.output, "output_allowance": slack,
            "empty": operands.counts == 0, "claimed": is_claimed, "output_claimed": is_claimed}


def _expect_sharply(dtype: DType, r: Roundings, parts: frozenset[str],
                    operands: Operands) -> dict[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…): the widest truth, with the sharp bound."""
    classes = [r]
    # where long double is no wider (macOS, Windows), the truth rounds as a float64 subject does
    if not is_wider(r.precision.dtype):
        classes.append(roundings(assumed_precision(DType.FLOAT64)))
    return _expected_fields(operands, compute_truth(operands, wide_float(dtype)), classes, parts)


def _expected_fields(
        operands: Operands, wide: Truth, classes: Sequence[Roundings],
        parts: frozenset[str]) -> dict[str, Array]:
    """The same (B,H,T,…), from the truth and the classes of arithmetic that err."""
    truth = wide if wide.output.dtype == np.float64 else wide.narrow()
    erring = [(r, weight_error(operands, truth, r)) for r in classes]
    # the domain is that of the subject's class
    is_claimed: Array = in_domain(operands, truth, *erring[0]) & np.isfinite(erring[0][1].worst)
    block_fields = dict(EMPTY_FIELDS)
    if parts & {"output", "typical"}:
        slack = _sum_allowances(output_allowance(operands, truth, r, errors)
                                for r, errors in erring)
        block_fields |= {"output": wide.output, "output_allowance": slack}
        is_claimed &= np.isfinite(slack).all(axis=-1)
    block_state: tuple[Operands, Truth, Truth, Erring] = operands, wide, truth, erring
    state_of_keys = without_sink(*block_state) if operands.has_sink else block_state
    if "weights" in parts:
        block_fields |= _weights_fields(*state_of_keys)
    if "logits" in parts:
        block_fields |= _logits_fields(*state_of_keys)
    if "lse" in parts:
        slack = _sum_allowances(lse_allowance(operands, truth, r, errors) for r, errors in erring)
        block_fields |= {"lse": row_log_sum_exp(wide, operands), "lse_allowance": slack}
        is_claimed &= np.isfinite(slack)
    if "typical" in parts:
        chances = functools.reduce(Typical.__add__,
                                   (typical_error(operands, truth, r, errors)
                                    for r, errors in erring))
        block_fields |= {"typical_spread": chances.spread, "typical_strain": chances.strain,
                  "typical_sure": chances.sure}
    if parts & {"weights", "logits", "typical", "visible"}:
        block_fields["visible"] = state_of_keys[0].visible_array()
    return block_fields | {"empty": operands.counts == 0, "claimed": is_claimed,
                           "output_claimed": is_claimed}


def _weights_fields(operands: Operands, wide: Truth, truth: Truth,
                    erring: Erring) -> dict[str, Array]:
    """The weights of one block (B,H,T,S), their allowance and that of the row sums (B,H,T)."""
    return {"weights": wide.weights / divisor(wide.total)[..., None],
            "weights_allowance": _sum_allowances(weights_allowance(operands, truth, r, errors)
                                                 for r, errors in erring),
            "row_sum_allowance": _sum_allowances(row_sum_allowance(operands, truth, r, errors)
                                                 for r, errors in erring)}


def _logits_fields(operands: Operands, wide: Truth, truth: Truth,
                   erring: Erring) -> dict[str, Array]:
    """The logits of one block and their allowance, (B,H,T,S)."""
    visible = operands.visible_array()
    slack = _sum_allowances(logits_allowance(truth, r, errors) for r, errors in erring)
    return {"logits": np.where(visible, wide.shifted_logits, -np.inf),
            "logits_allowance": np.where(visible, slack, 0.0)}


def _sum_allowances(allowances: Iterable[Array]) -> Array:
    """The sum of the erring classes' allowances: (B,H,T,Dv), (B,H,T,S) or (B,H,T)."""
    return functools.reduce(np.add, allowances)


# What is read off an answer


Erring = Sequence[tuple[Roundings, WeightError]]
"""Classes of arithmetic, each with the errors of the weights under it."""

def weights_allowance(operands: Operands, truth: Truth, r: Roundings,
                      errors: WeightError) -> Array:
    """(B,H,T,S): the worst-case allowance of the output for V = I, entry by entry; exactly 0 where
    the key is hidden.
    """
    p = truth.weights / divisor(truth.total)[..., None]
    least = errors.least[..., None]
    excess = errors.excess / least
    distance = 1 - p
    if r.stored_formats:
        distance = distance + own_rounding(operands)
    # with V = I a value is 1 for the key itself and 0 for all others: |v_j - o| is 1 - p or p
    drift = excess * distance + p * np.maximum(errors.mass[..., None] - excess, 0.0)
    # the hull of 0 and 1
    drift = np.fmin(drift, np.maximum(p, 1 - p))
    # no weight is more than 1
    heavy = np.fmin((truth.weights + errors.excess) / least, 1.0)
    divisor_error = errors.divisor_error(r)
    rounding = heavy * _kept_weight_error(errors,
                                          r) * (1 + divisor_error) + (p + drift) * divisor_error
    rounding += (p + drift + rounding) * (r.softmax * (2 + r.softmax))
    # an underflown weight is missing itself, and from the sum that the others are divided by
    inner_error = (drift + rounding + r.lost_weight * (1 + operands.counts[..., None] * p)
              + r.lost_product)
    if r.stored_formats:
        inner_error = inner_error + _stored_weight_allowance(operands, truth, r, errors,
                                                             p + inner_error)
    allowance = inner_error + r.output * (p + inner_error) + r.lost_output
    if operands.visible is None:
        return np.asarray(allowance)
    return np.where(operands.visible, allowance, 0.0)


def _stored_weight_allowance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError,
                             size: Array) -> Array:
    """(B,H,T,S): what quantising weights, or the values that read them, adds to weights of `size`.

    1 is the largest value, which is stored exactly, but for its scale.
    """
    storage = weight_storage_error(truth, r, errors, operands.visible)
    scaled_back = _stored_one_error(r) * size
    if storage is None:
        return scaled_back
    if not r.stored_formats[WEIGHTS].summed:
        return np.asarray(storage.distances + scaled_back)
    by_stored_sum = (storage.distances + size * storage.mass) / (1 - storage.mass)
    return np.asarray(np.where(storage.mass < 1, by_stored_sum, np.maximum(storage.distances, 1.0))
                      + scaled_back)


def _stored_one_error(r: Roundings) -> float:
    """How far off a 1 may be that is stored as a value."""
    storage = r.stored_formats.get("value")
    if storage is None:
        return 0.0
    return (r.inputs.of_values
            + float(storage.entry_errors(np.ones((1, 1, 1, 1)), r.precision)[0, 0, 0, 0]))


def row_sum_allowance(operands: Operands, truth: Truth, r: Roundings,
                      errors: WeightError) -> Array:
    """(B,H,T): the worst-case allowance of the output for V = 1, and the rounding of each weight
    that is returned.
    """
    divisor_error = errors.divisor_error(r)
    growth = ((1 + _kept_weight_error(errors, r)) * (1 + divisor_error) * (1 + r.softmax) ** 2
             * (1 + r.output) - 1)
    # numerator and denominator may each lose it
    loss = r.lost_weight * 2 + r.lost_product + r.lost_output
    allowance: Array = growth[..., 0] + operands.counts * loss * (1 + growth[..., 0])
    if r.stored_formats:
        allowance = allowance + _stored_one_error(r) * (1 + allowance)
    storage = weight_storage_error(truth, r, errors, operands.visible)
    # divided by the sum of what is stored, rows still sum to 1
    if storage is None or r.stored_formats[WEIGHTS].summed:
        return allowance
    return np.asarray(allowance + storage.mass[..., 0] * (1 + allowance))


def logits_allowance(truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): how far log(weight) less the row's largest may be from the difference of logits.

    The row's sum cancels. Infinite where the weight may leave the range in which it is rounded
    relatively.
    """
    top = np.take_along_axis(errors.error, np.argmax(truth.weights, axis=-1, keepdims=True),
                             axis=-1)
    weight_rounding = (1 + _kept_weight_error(errors,
                                              r)) * (1 + r.softmax) ** 2 * (1 + r.output) - 1
    normal = r.normal_weight
    if r.stored_formats:
        storage, weight_rounding = (r.stored_formats.get(WEIGHTS),
                                    (1 + weight_rounding) * (1 + _stored_one_error(r)) - 1)
        if storage is not None:
            weight_rounding = (1 + weight_rounding) * (1 + storage.relative) - 1
            normal = max(normal, storage.least_relative)
    # both weights of a difference suffer it, and downwards it costs more than upwards
    rounding = np.where(weight_rounding < 1, -2 * np.log1p(-np.minimum(weight_rounding, 0.999)),
                        np.inf)
    return np.where(_least_weight(truth, errors) < normal, np.inf, errors.error + top + rounding)


def _least_weight(truth: Truth, errors: WeightError) -> Array:
    """(B,H,T,S): a lower bound of honest weights, roundings included."""
    most = (truth.total + errors.excess.sum(axis=-1))[..., None]
    least: Array = np.exp(np.minimum(truth.shifted_logits - errors.error, 0.0)) / divisor(most)
    return least / 2


def _kept_weight_error(errors: WeightError, r: Roundings) -> Array:
    """(B,H,T,1): the relative error of a weight by online rescales and by its storage."""
    # a weight alone is no sum: with V = I it meets zeros, and is accumulated exactly
    error: Array = (1 + 3 * errors.rescales * r.accumulate) * (1 + r.weights) - 1
    return error


def without_sink(operands: Operands, wide: Truth, truth: Truth,
                 erring: Erring) -> tuple[Operands, Truth, Truth, Erring]:
    """A block's operands, truth (wide, and in float64) and errors, for the keys without the sink.

    The wide truth's `shifted_logits` are logits less the row's largest of a key, whatever the
    sink's.
    """
    keys = replace(operands, key=operands.key[:, :, :-1], value=operands.value[:, :, :-1],
                   visible=operands.visible_array()[..., :-1], has_sink=False)
    errors = [(r, replace(each, error=each.error[..., :-1], excess=each.excess[..., :-1]))
              for r, each in erring]
    of_keys = _drop_sink_column(wide)
    # the sink may be the row's largest, and it is no key
    visible_logits = np.where(keys.visible_array(), of_keys.shifted_logits, -np.inf)
    top = visible_logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted_logits = of_keys.shifted_logits - np.where(np.isneginf(top), 0, top)
    return keys, replace(of_keys, shifted_logits=shifted_logits), _drop_sink_column(truth), errors


def _drop_sink_column(truth: Truth) -> Truth:
    scores = ("dots", "bent_dots", "logits", "shifted_logits", "weights")
    return replace(truth, **{name: getattr(truth, name)[..., :-1] for name in scores})


# How far an honest implementation may be from the truth where its roundings are independent and unbiased


@dataclass(frozen=True, slots=True, eq=False)
class Typical:
    """The random and the systematic part of an output's error.

    spread (B,H,T,Dv): the root of the sum of squared roundings.  strain (B,H,T,1): the same of the
    worst attended logarithm of a weight; beyond some 0.1 / multiple the error is no longer linear
    in it.  sure (B,H,T,Dv): errors that all have one sign, or are too few for chance to matter.
    """

    spread: Array
    strain: Array
    sure: Array

    def __add__(self, other: Typical) -> Typical:
        """Two errors on top of each other: the subject's, and the truth's own."""
        return Typical(self.spread + other.spread, np.maximum(self.strain, other.strain),
                       self.sure + other.sure)

    def allowance(self, worst_case: Array, multiple: float) -> Array:
        """(B,H,T,Dv): the typical allowance, or the worst-case allowance where that is less or the
        typical one has no meaning.
        """
        # exp(e) - 1 is e·(1 + e/2 + …): where e is no longer small, this takes the typical
        # allowance beyond the worst-case one, which then stands
        curvature = np.exp(np.minimum(2 * multiple * self.strain, 700.0))
        return np.asarray(np.fmin(worst_case, multiple * self.spread * curvature + self.sure))


def hoeffding_multiple(events: int, false_alarm: float) -> float:
    """The multiple of its spread that none of `events` errors exceeds, except at rate
    `false_alarm`.

    By Hoeffding's inequality and a union.
    """
    # P(|error| > x·sigma) is at most 2·exp(-x²/2), whatever the errors' distribution
    return math.sqrt(2 * math.log(2 * max(events, 1) / false_alarm))


def typical_error(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Typical:
    """The ingredients of the typical allowance. They have no meaning on rows that `in_domain`
    leaves out.
    """
    p = truth.weights / divisor(truth.total)[..., None]
    variance, size = _log_variance(operands, truth, r, errors), np.abs(truth.output)
    attended_variance = variance
    if operands.visible is not None:
        attended_variance = np.where(operands.visible, variance, 0.0)
    # exp(e) - 1 is linear in e only while e is small; the worst of them says how far that holds
    strain = np.sqrt(attended_variance.max(axis=-1, keepdims=True, initial=0.0))
    # what all keys share does not average out: constants, the division, underflow
    sure = _constants_drift(operands, truth, p, r)
    sure = sure + size * (r.softmax * (2 + r.softmax))
    sure = sure + lost_weights(operands, size, r)
    sure = sure + size * errors.normaliser + _slope_drift(operands, truth, p, r)
    if r.stored_formats:
        strain = np.hypot(strain, strain_of_query(operands))
        sure = sure + sure_of_stored(operands, truth, r, errors)
    # squares of values near 1e-150 underflow, and every float64 subject stood at 6 to 42 times the
    # typical allowance on such heads
    unit, growth = _value_unit(operands.value), 1 + r.output
    scaled_operands = replace(operands, value=operands.value / unit)
    scaled_truth = replace(truth, output=truth.output / unit)
    square = _spread_of_values(p * p * variance, scaled_operands.value, scaled_truth.output)
    # what a row shares is counted by its covariance, which shrinks with the row as absolute values
    # do not
    square += _query_variance(scaled_operands, scaled_truth, p,
                              r) + _sums_variance(scaled_operands, scaled_truth, p, r, errors)
    if r.stored_formats:
        square += spread_of_stored(scaled_operands, scaled_truth,
                                   (p, p * _steepness(operands, truth)), r, unit)
    spread = unit * np.sqrt(square)
    return Typical(spread * growth, strain, sure * growth + r.output * size + r.lost_output)


def _slope_drift(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array | float:
    """(B,H,T,Dv): the drift by slopes: neighbours share roundings, which chance does not damp."""
    if operands.reach is None:
        return 0.0
    # added by size, as what is certain: neighbours have the same numbers to round
    weight_errors = p * slope_error(operands, truth, r)
    return np.asarray(weight_errors @ operands.sizes.value
                      + np.abs(truth.output) * weight_errors.sum(axis=-1, keepdims=True))


def _value_unit(value: Array) -> Array:
    """(B,H,1,1): a power of two near each head's largest value; so squares stay in range."""
    largest = np.abs(value).max(axis=(-2, -1), keepdims=True, initial=0.0)
    usable = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    return np.asarray(np.ldexp(1.0, np.frexp(usable)[1]))


def _log_variance(operands: Operands, truth: Truth, r: Roundings, errors: WeightError) -> Array:
    """(B,H,T,S): the squared roundings of each weight's logarithm that no other key shares."""
    a, D = abs(float(operands.scale)), float(operands.query.shape[-1])
    # each product is rounded, and each partial sum of them: in squares, as independent roundings add
    squares = np.square(operands.query) @ np.square(operands.key).swapaxes(-1, -2)
    # products of one sign make larger partial sums, so that the total counts as well as the
    # squares
    sum_error = r.accumulate * a * np.sqrt(squares + _partial_sums(squares, truth.dots, D))
    size, logits = scaled_magnitude(operands, truth), np.abs(truth.logits)
    # before a bend it is the product that is stored
    storage_error = r.logits * (logits if operands.bend is None else size)
    if operands.bias is not None and operands.bend is None:
        # a bias that begins the sum is rounded D times, by chance: by the root of D
        sum_error = (sum_error
                  + (math.sqrt(D) * r.accumulate * r.bias_in_accumulator) * np.abs(operands.bias))
        storage_error = _bias_addition_spread(size, logits, r)
    # the scale may be multiplied into keys, one rounding an entry, or into the logit
    prescale_variance = r.prescale * r.prescale * (a * a * squares + size * size)
    variance = sum_error**2 + prescale_variance + storage_error**2 + logit_underflow(operands,
                                                                                     r) ** 2
    if operands.entry_errors is not None and r.stored_formats:
        variance = variance + a * a * squares_of_stored(operands, operands.entry_errors)
    if operands.bend is not None:
        variance = _variance_behind_bend(variance, operands, operands.bend, truth, r)
    # a rescaling is shared by the keys before it; over all orders their partial sums come to a sixth of the squares
    exponential = r.exp * r.exp + errors.rescales / 6 * (r.exp + r.softmax) ** 2
    return np.asarray(variance + np.square(r.argument * truth.shifted_logits) + exponential)


def _bias_addition_spread(product: Array, logits: Array, r: Roundings) -> Array:
    """(B,H,T,S): the root of the squared roundings of adding a bias, and of storing the sum."""
    return np.asarray(np.hypot(r.biased_logits * np.maximum(product, logits),
                               r.accumulate * logits))


def _variance_behind_bend(variance: Array, operands: Operands, bend: LogitBend, truth: Truth,
                          r: Roundings) -> Array:
    """(B,H,T,S): the squared roundings of bent logits with bias.

    variance: of the scaled dot products.
    """
    size, bent_size = scaled_magnitude(operands, truth), np.abs(truth.bent_dots)
    # anywhere between truth and answer
    steepness = bend.steepest(size, product_error(operands, truth, r))
    bent_variance: Array = steepness**2 * variance + bend.own_variance(size, bent_size, steepness,
                                                                       r)
    if operands.bias is None:
        return bent_variance
    return np.asarray(bent_variance + _bias_addition_spread(bent_size, np.abs(truth.logits),
                                                            r) ** 2)


def _steepness(operands: Operands, truth: Truth) -> Array | float:
    """(B,H,T,S): the slope of the bend at each logit; 1 without one."""
    if operands.bend is None:
        return 1.0
    return operands.bend.steepest(scaled_magnitude(operands, truth), 0.0)


def _partial_sums(squares: Array, total: Array, n: Array | float) -> Array:
    """The sum of the squared partial sums of n terms, from the sum of their squares and their
    total (any shape).

    It is the mean over all orders of adding one after the other. Trees and blocks have smaller
    ones.
    """
    n = np.maximum(n, 1.0)
    # terms of one sign grow steadily, and their partial sums are larger than those of a random walk
    steady = total * total / n
    return np.asarray((n + 1) / 6 * np.maximum(squares - steady, 0.0)
                      + (n + 1) * (2 * n + 1) / 6 * steady)


def _spread_of_values(mass: Array, value: Array, o: Array) -> Array:
    """(B,H,T,Dv): the sum of mass_j·(v_j - o)², by matrix products.

    What cancellation may take away is added.
    """
    squares, shift = mass @ (value * value), o * o * mass.sum(axis=-1, keepdims=True)
    guard = (2 * value.shape[-2] + 16) * 2.0**-52
    variance: Array = (np.maximum(squares - 2 * o * (mass @ value) + shift, 0.0)
                    + guard * (squares + shift))
    return variance


def _query_variance(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array:
    """(B,H,T,Dv): the squared roundings of a scale that is multiplied into the query.

    All keys share an entry's rounding, which moves the output by the covariance of key entry and
    value.
    """
    squares = shared_query_squares(operands, truth, p * _steepness(operands, truth),
                                   operands.query)
    return np.asarray((r.prescale * float(operands.scale)) ** 2 * squares)


def _sums_variance(operands: Operands, truth: Truth, p: Array, r: Roundings,
                   errors: WeightError) -> Array:
    """(B,H,T,Dv): the squared roundings of stored weights, of the sum of their products, and of
    the row's sum.
    """
    n, o, squares = operands.counts[..., None], truth.output, p * p
    # a weight's own rounding meets one value alone: squares of both
    products = squares @ np.square(operands.value)
    longer = errors.chain / np.maximum(n, 1.0)  # rescaling rounds partial sums again
    # by chance, each product with a value is off by its own two roundings
    numerator = (products * (r.weights**2 + r.accumulate**2)
                 + _partial_sums(products, o, n) * longer * r.accumulate**2)
    whole = np.ones_like(n)
    denominator = (_partial_sums(squares.sum(axis=-1, keepdims=True), whole, n) * longer
                   * r.row_sum**2)
    return np.asarray(numerator + o * o * denominator)


def _constants_drift(operands: Operands, truth: Truth, p: Array, r: Roundings) -> Array:
    """(B,H,T,Dv): the drift by the scale and log2(e), which are off by one factor for all keys.

    That is a change of temperature, which chance does not damp.
    """
    # log2(e) and the scale are one factor for all keys: no average takes it out
    logits = abs(float(operands.scale)) * truth.dots * _steepness(operands, truth)
    bend_error = 0.0 if operands.bend is None else operands.bend.shared_error(r)
    return np.asarray((r.scale + bend_error) * _value_covariance(logits, p, operands)
                      + r.softmax * _value_covariance(truth.shifted_logits, p, operands))


def _value_covariance(logits: Array, p: Array, operands: Operands) -> Array:
    """(B,H,T,Dv): |Cov(logit, value)| under the weights."""
    visible_logits = logits
    if operands.visible is not None:
        visible_logits = np.where(operands.visible, logits, 0.0)
    # centred first: the covariance of large logits would cancel otherwise
    deviation = visible_logits - (p * visible_logits).sum(axis=-1, keepdims=True)
    return np.asarray(np.abs((p * deviation) @ operands.value))
