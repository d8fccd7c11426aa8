"""A layer as attention between projections. The projections are exact by construction; the output's is not."""

from __future__ import annotations

import numpy as np

from attnspec.ground.keyword import Acts
from attnspec.ground.keywords import acting_on
from attnspec.numerics.roundings import Roundings
from attnspec.problems.problem import Array, LayerProblem, Problem


def lowered(problem: LayerProblem) -> Problem:
    """The attention inside: the projected and split query, key and value, in float64 (where they are exact)."""
    heads, kv_heads = problem.heads, problem.kv_heads
    query = _projected(problem, problem.query, "query", heads)
    key = _projected(problem, problem.key, "key", kv_heads)
    value = _projected(problem, problem.value, "value", kv_heads)
    return Problem(problem.dtype, query, key, value, **problem.given).but(**acting_on(Acts.ANSWER))


def _projected(problem: LayerProblem, array: Array, name: str, heads: int) -> Array:
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
