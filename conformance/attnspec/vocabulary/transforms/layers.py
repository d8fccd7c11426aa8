"""Words of `runs` for layer problems: a posed layer problem to another. Pure and exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.core.keywords import AXES, OFF
from attnspec.problems.problem import Array, LayerProblem
from attnspec.vocabulary.hints import DrawnSeed
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Posed

Layer = Posed[LayerProblem]


def permute_layer_heads(posed: Layer, *, by: DrawnSeed) -> Layer:
    """Reorder the heads: the columns of the input projections and, with them, the rows of the output projection."""
    problem = posed.one
    _needs_output_projection(problem)
    if problem.heads != problem.kv_heads:
        raise NoClaim("heads are grouped")
    order = np.random.RandomState(by).permutation(problem.heads)
    moved = {name: np.ascontiguousarray(np.take(array, order, axis=AXES[name].index("H")))
             for name, array in problem.given.items() if "H" in AXES.get(name, "")}
    params = {name: _reordered(name, array, order) for name, array in problem.params.items()}
    return posed.but(params=params, **moved).reading("H", np.argsort(order))


def _needs_output_projection(problem: LayerProblem) -> None:
    """Without it heads lie side by side in the output, whose order is theirs."""
    if "w_out" not in problem.params:
        raise OutsideLimits("it has no output projection")


def _reordered(name: str, array: Array, order: Array) -> Array:
    """The parameter with its heads in the order (H,): of w_out (H·Dv,M) the rows, of other weights (M,H·D) and their
    biases (H·D,) the columns; b_out (M,) has none.
    """
    if name == "b_out":
        return array
    axis = 0 if name == "w_out" else -1
    columns = np.arange(array.shape[axis]).reshape(len(order), -1)[order].ravel()
    return np.ascontiguousarray(np.take(array, columns, axis=axis))


def one_head_at_a_time(posed: Layer) -> Layer:
    """Make one call for each head, with the other heads' rows of w_out zero; add up the outputs, b_out once."""
    problem = posed.one
    _needs_output_projection(problem)
    parts = tuple(problem.but(params=_only(problem.params, head, problem.heads)) for head in range(problem.heads))
    return replace(posed, parts=parts, join="sum")


def _only(params: Mapping[str, Array], head: int, heads: int) -> dict[str, Array]:
    """The parameters with the rows of w_out (H·Dv,M) zero but for those of one head, and b_out (M,) zero but for the
    first.
    """
    owner = np.arange(params["w_out"].shape[0]) * heads // params["w_out"].shape[0]
    lone = {**params, "w_out": np.where((owner == head)[:, None], params["w_out"], np.zeros_like(params["w_out"]))}
    # the outputs of all heads are summed, and each would bring the bias along
    if "b_out" in params and head:
        lone["b_out"] = np.zeros_like(params["b_out"])
    return lone


def multiply_biases(posed: Layer, *, by: Literal["minus four", "two"]) -> Layer:
    """Multiply every bias of the projections by a power of two, which is exact; a layer needs biases for this."""
    params, factor = posed.one.params, {"minus four": -4, "two": 2}[by]
    if not any(name.startswith("b_") for name in params):
        raise OutsideLimits("its projections add no biases")
    return posed.but(params={name: array * array.dtype.type(factor) if name.startswith("b_") else array
                             for name, array in params.items()})


def indivisible_heads(posed: Layer) -> Layer:
    """Ask for a number of heads that does not divide the width."""
    problem = posed.one
    width = problem.params["w_query"].shape[1]
    # a count beyond the width divides nothing, so one is always found
    heads = next(count for count in range(problem.heads + 1, width + 2) if width % count)
    return posed.but(heads=heads, kv_heads=heads, **{name: OFF[name] for name in AXES if "H" in AXES[name]})
