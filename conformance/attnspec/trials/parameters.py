"""What the definition says of the gradients of a layer's parameters, where attention is lowered to the layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attnspec.numerics.expectation import Expectation
from attnspec.numerics.gradient_params import Factor, exact, gradient_of_bias, gradient_of_weight
from attnspec.numerics.gradient_precision import BackwardRoundings
from attnspec.numerics.gradients import Gradient
from attnspec.numerics.lengths import queries_within
from attnspec.numerics.reference import wide_float
from attnspec.problems.problem import INPUTS, Array, Problem
from attnspec.subjects.lower import Lowered

OUT = "out"


def of_parameters(problem: Problem, lowered: Lowered, found: Mapping[str, Gradient], output: Expectation,
                  grad: Array, *, settled: Array, classes: Sequence[BackwardRoundings]) -> Mapping[str, Gradient]:
    """By the names of the parameters. found: the gradients of the inputs.  output: of attention.  grad: of the layer's
    output, (B,T,M).  settled: (B,T) bool, where the output of a row that sees no key is zeros.
    """
    real, own = np.dtype(wide_float(problem.dtype)), classes[0]
    pairs = {name: (exact(getattr(lowered, name), real, own), spread(lowered, name, _of_input(found[name], real)))
             for name in INPUTS}
    heads = spread(lowered, OUT, _of_output(problem, output, settled, real))
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is not claimed
        return dict(_each(lowered.params, {**pairs, OUT: (heads, exact(grad, real, own))}, classes))


def _each(params: Mapping[str, Array], pairs: Mapping[str, tuple[Factor, Factor]],
          classes: Sequence[BackwardRoundings]) -> Iterator[tuple[str, Gradient]]:
    """The gradient of each parameter that there is, w_query (M,H·D), b_query (H·D,) and their like."""
    for name, (given, back) in pairs.items():
        if f"w_{name}" in params:
            yield f"w_{name}", gradient_of_weight(given, back, classes)
        if f"b_{name}" in params:
            yield f"b_{name}", gradient_of_bias(back, classes)


def _of_input(gradient: Gradient, real: np.dtype[np.floating]) -> Factor:
    """Of the query (B,H,T,D), or its like, as it comes back from attention."""
    return Factor(gradient.truth.astype(real), gradient.allowance, gradient.claimed)


def _of_output(problem: Problem, output: Expectation, settled: Array, real: np.dtype[np.floating]) -> Factor:
    """The output of the heads (B,H,T,Dv), zeros in rows that see nothing, where that is known of them."""
    none = (output.empty | ~queries_within(problem)[:, None])[..., None]
    claimed = np.where(none, settled[:, None, :, None], output.output_claimed[..., None])
    truth, error = (np.where(none, 0, array) for array in (output.output.astype(real), output.output_allowance))
    return Factor(truth, error, np.broadcast_to(claimed, truth.shape))


def spread(lowered: Lowered, name: str, heads: Factor) -> Factor:
    """(B,H,T,D) and its like, as it lies in the layer, (B,T,H·D). Where heads are wider, they hold zeros times what the
    head has there, so that an entry that is not claimed takes its head with it.
    """
    truth, error = (lowered.projected(name, each) for each in (heads.truth, heads.error))
    lost = ~heads.claimed.all(axis=-1, keepdims=True)
    whole = np.broadcast_to(lost, (*lost.shape[:3], truth.shape[-1] // lost.shape[1]))
    return Factor(truth, error, ~lowered.projected(name, whole))
