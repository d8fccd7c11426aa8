"""What an honest subject answers to a problem, and how far from it rounding may take it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.core.nouns import DType
from attnspec.numerics.blocks import blocks, joined
from attnspec.numerics.bound import in_domain, output_allowance, weight_error
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.lse import log_sum_exp, lse_allowance
from attnspec.numerics.operands import Operands, visible_keys
from attnspec.numerics.precision import Precision, assumed
from attnspec.numerics.readout import (
    Erring,
    divisor,
    logits_allowance,
    row_sum_allowance,
    weights_allowance,
    without_sink,
)
from attnspec.numerics.reference import Truth, attend, is_wider, wide_float
from attnspec.numerics.roundings import Roundings, roundings
from attnspec.numerics.screen import screening_allowance
from attnspec.numerics.typical import Typical, multiple, typical
from attnspec.problems.problem import Array, LayerProblem, Problem


def lowered(problem: LayerProblem) -> Problem:
    """The attention inside: the projected and split query, key and value, in float64 (where they are exact)."""
    heads, kv_heads = problem.heads, problem.kv_heads
    query = _projected(problem, problem.query, "query", heads)
    key = _projected(problem, problem.key, "key", kv_heads)
    value = _projected(problem, problem.value, "value", kv_heads)
    return Problem(problem.dtype, query, key, value, **problem.given).but(**acting_on(Acts.ANSWER))


def _projected(problem: LayerProblem, array: Array, name: str, heads: int) -> Array:
    """(B,T,M) or (B,S,M) -> (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv): projected, with bias, and split into heads."""
    projected = array.astype(np.float64) @ problem.params[f"w_{name}"].astype(np.float64)
    if f"b_{name}" in problem.params:
        projected = projected + problem.params[f"b_{name}"].astype(np.float64)
    B, length, width = projected.shape
    return projected.reshape(B, length, heads, width // heads).swapaxes(1, 2)


def concat(array: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv): head h owns the columns h·Dv … (h+1)·Dv-1."""
    B, H, T, Dv = array.shape
    return array.swapaxes(1, 2).reshape(B, T, H * Dv)


def carried(problem: LayerProblem, r: Roundings, output: Array, allowance: Array) -> tuple[Array, Array]:
    """Attention's output and allowance (B,H,T,Dv) carried through the output projection: both (B,T,M).

    The sum of H·Dv products may be seeded with the bias; it is rounded, and rounded again when the bias is added.
    """
    heads, slack = concat(output), concat(allowance)
    if "w_out" not in problem.params:
        return heads, slack
    weight = problem.params["w_out"].astype(np.float64)
    bias = problem.params["b_out"].astype(np.float64) if "b_out" in problem.params else np.zeros(1)
    size = np.abs(weight)
    product = heads @ weight.astype(heads.dtype)
    summed = (np.abs(heads).astype(np.float64) + slack) @ size + np.abs(bias)
    error = slack @ size + (len(weight) + 1) * r.accumulate * summed + 2 * len(weight) * r.lost_product
    error += r.output * (np.abs(product).astype(np.float64) + error) + r.lost_output
    error += r.output * (np.abs(product + bias).astype(np.float64) + error) + r.lost_output
    return product + bias, error


def sums_fit(problem: LayerProblem, r: Roundings, output: Array) -> Array:
    """(B,T): whether the output projection can overflow nowhere."""
    if "w_out" not in problem.params:
        return np.ones((output.shape[0], output.shape[2]), dtype=bool)
    sums = np.abs(concat(output)).astype(np.float64) @ np.abs(problem.params["w_out"].astype(np.float64))
    fits: Array = sums.max(axis=-1, initial=0.0) <= min(r.largest_sum, r.largest_output) / 2
    return fits


__all__ = ["EVERYTHING", "Expectation", "expect", "expect_layer", "visible_keys"]

EVERYTHING = frozenset({"output", "weights", "logits"})


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """The truth (float64; long double for a float64 subject), the allowance beside it (float64), and where they count.

    output, output_allowance: (B,H,T,Dv); of a layer (B,T,M).
    weights, weights_allowance: (B,H,T,S); both exactly 0 where a key is hidden.
    logits, logits_allowance: (B,H,T,S), logits less the row's largest (hidden: -inf); the allowance is that of
    log(weight) less the top key's log(weight), infinite where the weight may underflow.
    row_sum_allowance: (B,H,T), how far an honest row of weights may sum from 1.
    visible: (B,H,T,S) bool, beside weights, logits and what is typical, or asked for alone.
    empty: (B,H,T) bool, rows without a visible key; their truth is written as zeros.
    claimed: (B,H,T) bool, rows that are not empty and lie in the domain of the bound. Elsewhere nothing may be judged.
    output_claimed: the same for `output`: `claimed` itself; of a layer (B,T), where all heads are.
    typical_spread, typical_sure (B,H,T,Dv), typical_strain (B,H,T,1): what `typical_allowance` is made of.
    lse, lse_allowance: (B,H,T), where they are asked for, the natural logarithm; -inf on rows without a visible key.
    gradients: by name of the input, where they are asked for, alone.
    What was not asked for (`parts`; the row sums come with the weights, the output with what is typical) has length 0
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
        """(B,H,T,Dv): S, which an honest output exceeds anywhere with at most this probability, where values are
        generic. Every entry counts, and every weight behind them, since its error is taken to be small.
        """
        spread = multiple(self.output.size + self.visible.size, false_alarm)
        parts = Typical(self.typical_spread, self.typical_strain, self.typical_sure)
        return parts.allowance(self.output_allowance, spread)


def expect(
    problem: Problem, precision: Precision, *, conventions: Mapping[str, str], scale_width: int | None = None,
    rows: Array | None = None, parts: frozenset[str] = EVERYTHING, screens: bool = False,
) -> Expectation:
    """The truth and the allowances of a problem: output (B,H,T,Dv), weights and logits (B,H,T,S); see `Expectation`.

    conventions: `causal_alignment`, `mask_with_causal` and `grouped_heads` are heeded; absent or undefined, the
    recommended answer is.  scale_width: the width whose 1/sqrt is the default scale (None: D).  rows: the indices along
    T to judge; the T axes of the result are then as long as `rows`.  parts: what to work out, for speed; `typical` must
    be asked for, and is for values without structure only.  screens: look at every entry, but cheaply: the truth is in
    float64 for a float64 subject too, and allowances may be larger than need be; they pay for the truth's own error.
    """
    sizes = problem.sizes
    T = sizes.T if rows is None else len(rows)
    work_out = functools.partial(_screened if screens else _exactly, problem.dtype, precision, parts)
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is left out by `claimed`
        found = ((block.place, work_out(block.operands)) for block in blocks(problem, conventions, scale_width, rows))
        every: dict[str, Any] = dict(joined((sizes.B, sizes.H, T), found))
        return Expectation(**every, is_screened=screens)


_NONE, _NO_ROWS = np.zeros((0, 0, 0, 0)), np.zeros((0, 0, 0))
NOTHING = {each.name: _NO_ROWS if each.name == "row_sum_allowance" else _NONE for each in fields(Expectation)
            if each.name not in {"is_screened", "lse", "lse_allowance", "gradients"}}


def of_gradients(gradients: Mapping[str, Gradient]) -> Expectation:
    """Gradients and nothing else."""
    every: dict[str, Any] = dict(NOTHING)
    return Expectation(**every, gradients=gradients)


def expect_layer(
    problem: LayerProblem, precision: Precision, *, conventions: Mapping[str, str], parts: frozenset[str] = EVERYTHING,
) -> Expectation:
    """The same for a layer: output (B,T,M), all else of the attention inside, whose scale is 1/sqrt(D)."""
    inside = expect(lowered(problem), precision, conventions=conventions, parts=parts | {"output"})
    r = roundings(precision)
    with np.errstate(all="ignore"):
        output, allowance = carried(problem, r, inside.output, inside.output_allowance)
        fits = sums_fit(problem, r, inside.output)
    claimed = inside.claimed.all(axis=1) & fits & np.isfinite(allowance).all(axis=-1)
    return replace(inside, output=output, output_allowance=allowance, output_claimed=claimed)


def _screened(dtype: DType, precision: Precision, parts: frozenset[str], operands: Operands) -> dict[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…): a float64 truth, and a cheap bound where that says enough."""
    truth, r = attend(operands, np.float64), roundings(precision)
    classes = [r, *([roundings(assumed(DType.FLOAT64))] if dtype is DType.FLOAT64 else [])]
    bounds = [screening_allowance(operands, truth, r) for r in classes] if parts == {"output"} else [None]
    known = [each for each in bounds if each is not None]
    if len(known) < len(bounds):
        return _found(operands, truth, classes, parts)
    slack = _total(allowance for allowance, _ in known)
    claimed = known[0][1] & np.isfinite(slack).all(axis=-1)
    return {**NOTHING, "output": truth.output, "output_allowance": slack, "empty": operands.counts == 0,
            "claimed": claimed, "output_claimed": claimed}


def _exactly(dtype: DType, precision: Precision, parts: frozenset[str], operands: Operands) -> dict[str, Array]:
    """The fields of `Expectation` of a block (B,H,T,…): a truth that is as wide as can be, and the sharp bound."""
    # where long double is no wider than float64 (macOS, Windows), the truth of a float64 subject rounds as it does
    classes = [roundings(precision), *([] if is_wider(precision.dtype) else [roundings(assumed(DType.FLOAT64))])]
    return _found(operands, attend(operands, wide_float(dtype)), classes, parts)


def _found(operands: Operands, wide: Truth, classes: Sequence[Roundings], parts: frozenset[str]) -> dict[str, Array]:
    """The same (B,H,T,…), given the truth and the classes that err: the subject's, and the truth's if no finer."""
    truth = wide.narrow()
    erring = [(r, weight_error(operands, truth, r)) for r in classes]
    claimed: Array = in_domain(operands, truth, *erring[0]) & np.isfinite(erring[0][1].worst)
    found = dict(NOTHING)
    if parts & {"output", "typical"}:
        slack = _total(output_allowance(operands, truth, r, errors) for r, errors in erring)
        found |= {"output": wide.output, "output_allowance": slack}
        claimed &= np.isfinite(slack).all(axis=-1)
    every: tuple[Operands, Truth, Truth, Erring] = operands, wide, truth, erring
    keys = without_sink(*every) if operands.has_sink else every
    if "weights" in parts:
        found |= _weights(*keys)
    if "logits" in parts:
        found |= _logits(*keys)
    if "lse" in parts:
        slack = _total(lse_allowance(operands, truth, r, errors) for r, errors in erring)
        found |= {"lse": log_sum_exp(wide, operands), "lse_allowance": slack}
        claimed &= np.isfinite(slack)
    if "typical" in parts:
        chances = functools.reduce(Typical.__add__, (typical(operands, truth, r, errors) for r, errors in erring))
        found |= {"typical_spread": chances.spread, "typical_strain": chances.strain, "typical_sure": chances.sure}
    if parts & {"weights", "logits", "typical", "visible"}:
        found["visible"] = keys[0].seen()
    return found | {"empty": operands.counts == 0, "claimed": claimed, "output_claimed": claimed}


def _weights(operands: Operands, wide: Truth, truth: Truth, erring: Erring) -> dict[str, Array]:
    """The weights of one block (B,H,T,S), their allowance and that of the row sums (B,H,T)."""
    return {"weights": wide.weights / divisor(wide.total)[..., None],
            "weights_allowance": _total(weights_allowance(operands, truth, r, errors) for r, errors in erring),
            "row_sum_allowance": _total(row_sum_allowance(operands, r, errors) for r, errors in erring)}


def _logits(operands: Operands, wide: Truth, truth: Truth, erring: Erring) -> dict[str, Array]:
    """The logits of one block and their allowance, (B,H,T,S)."""
    seen, slack = operands.seen(), _total(logits_allowance(truth, r, errors) for r, errors in erring)
    return {"logits": np.where(seen, wide.shifted, -np.inf), "logits_allowance": np.where(seen, slack, 0.0)}


def _total(allowances: Iterable[Array]) -> Array:
    """The allowances of the subject's class and of the truth's added up: (B,H,T,Dv), (B,H,T,S) or (B,H,T), as each."""
    return functools.reduce(np.add, allowances)
