"""The backward pass of the staged layer: gradients of its inputs and of its parameters, each rounded once at the end.

Of a projection Y = X W + b: dX = dY Wᵀ, dW = Xᵀ dY, db = dY, the last two summed over batch entries and places.
"""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from attnspec.faults.backward import backward
from attnspec.faults.layer import SOUND_LAYER, LayerCall, Params, both, heads_of, merge, split, take
from attnspec.faults.staged import attention
from attnspec.problems.problem import INPUTS, Array

OUT = "out"


@dataclass(frozen=True, slots=True, eq=False)
class LayerBackwardInputs:
    """What a layer's backward pass starts from.

    given: what goes into each projection, query (B,T,M) and its like, and the merged heads, out (B,T,H·Dv).
    back: the gradients of what comes out, (B,T,H·D) and its like, (B,T,M) of the output.  io: the dtype of the inputs.
    """

    call: LayerCall
    io: np.dtype[Any]
    params: Params
    given: Mapping[str, Array]
    back: Mapping[str, Array]

    def weight(self, name: str, given: Array | None = None, back: Array | None = None) -> Array:
        """(M,H·D): the gradient of a projection's matrix, of another input (B,T,M) or gradient where one is given."""
        given, back = (self.given[name] if given is None else given), (self.back[name] if back is None else back)
        return np.einsum("blm,bln->mn", given, back, optimize=True)


Edit = Callable[[Mapping[str, Array], LayerBackwardInputs], Mapping[str, Array]]
"""Changes to the gradients of parameters, by name and in the dtype of the computation."""


class LayerBackward(Protocol):
    """The contract of a layer's backward pass."""

    def __call__(self, query: Array, key: Array, value: Array, grad_output: Array, *, params: Params, heads: int,
                 **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M), grad_output (B,T,M) -> gradients by the names of inputs and parameters,
        each in the shape and dtype of what it is of.
        """


def layer_backward(call: LayerCall, grad: Array, edit: Edit) -> dict[str, Array]:
    """The gradients of a call where the output's is grad (B,T,M)."""
    with np.errstate(all="ignore"):
        work = take(call)
        found, known = _known(work, grad.astype(work.query.dtype), call.query.dtype)
        results = {**found, **{name: known.back[name] @ work.params[f"w_{name}"].T for name in INPUTS},
                   **edit(_of_parameters(known), known)}
        return {name: np.ascontiguousarray(array).astype(_dtype(name, call)) for name, array in results.items()}


def _known(work: LayerCall, grad: Array, io: np.dtype[Any]) -> tuple[Mapping[str, Array], LayerBackwardInputs]:
    """The gradients of what attention is handed, by name, and what is known; grad (B,T,M)."""
    handed = heads_of(work, SOUND_LAYER)
    output, _ = both(attention(handed.but(return_weights=True)))
    of_heads = grad @ work.params["w_out"].T if "w_out" in work.params else grad
    found = backward(handed, split(of_heads, work.heads))
    given = {**{name: getattr(work, name) for name in INPUTS}, OUT: merge(output)}
    return found, LayerBackwardInputs(work, io, work.params, given,
                                      {**{name: merge(found[name]) for name in INPUTS}, OUT: grad})


def _of_parameters(known: LayerBackwardInputs) -> Mapping[str, Array]:
    """The gradients of the parameters that there are: w_query (M,H·D), b_query (H·D,) and their like."""
    weights = {f"w_{name}": known.weight(name) for name in known.given if f"w_{name}" in known.params}
    biases = {f"b_{name}": back.sum(axis=(0, 1)) for name, back in known.back.items() if f"b_{name}" in known.params}
    return {**weights, **biases}


def _dtype(name: str, call: LayerCall) -> np.dtype[Any]:
    """That of what the gradient is of; parameters have the dtype of the inputs."""
    of: Array = getattr(call, name, call.query)
    return of.dtype


def as_layer_backward(edit: Edit) -> LayerBackward:
    """A layer's backward pass that takes every keyword of layers."""

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array, *, params: Params, heads: int,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M), grad_output (B,T,M) -> gradients by name."""
        return layer_backward(LayerCall(query, key, value, params, heads, **keywords), grad_output, edit)

    return attend_backward
