"""Backward passes of layers that are wrong in the gradients of parameters alone."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Kind
from attnspec.faults.backward import backward
from attnspec.faults.fault import Fault
from attnspec.faults.layer import SOUND_LAYER, LayerCall, Params, both, heads_of, merge, split, staged_layer, take
from attnspec.faults.staged import attention
from attnspec.problems.problem import INPUTS, Array

_REACH = "gradients of parameters"
_WIDE = dict.fromkeys((DType.FLOAT64, DType.FLOAT32), "sums are added up in the dtype anyway")


def _fault(name: str, story: str, edit: Edit, reach: str = _REACH, *, link: str = "",
           same: Mapping[DType, str] | None = None) -> Fault:
    """A fault whose forward pass is sound, and the gradients of whose inputs are."""
    return Fault(f"grad_param_{name}", GRAD, story, reach, staged_layer(), link, Kind.LAYER,
                 equivalents=same or {}, backward=lambda: as_layer_backward(edit))


def _each(prefix: str, change: Callable[[Array, str, LayerBackwardInputs], Array]) -> Edit:
    """An edit of each gradient whose name begins so, w_query (M,H·D) or b_query (H·D,), told its projection's name."""
    def edit(found: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
        """Gradients by name, any shape."""
        return {name: change(array, name[2:], known) if name.startswith(prefix) else array
                for name, array in found.items()}
    return edit


def _only(name: str, change: Callable[[Array, LayerBackwardInputs], Array]) -> Edit:
    """An edit of one gradient, w_query (M,H·D) or its like, where the layer has that parameter."""
    def edit(found: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
        """Gradients by name, any shape."""
        return {**found, name: change(found[name], known)} if name in found else found
    return edit


def _batch_mean(array: Array, name: str, known: LayerBackwardInputs) -> Array:
    """(M,H·D) or (H·D,), divided by the number of batch entries."""
    return array / array.dtype.type(len(known.given[name]))


def _of_last_entry(array: Array, name: str, known: LayerBackwardInputs) -> Array:  # noqa: ARG001  (an edit's)
    """(M,H·D): of the last batch entry alone."""
    return known.weight(name, known.given[name][-1:], known.back[name][-1:])


def _of_query_input(array: Array, known: LayerBackwardInputs) -> Array:
    """(M,Hkv·D): of the query's input in the place of the key's, where they are as long."""
    query = known.given["query"]
    return known.weight("key", query) if query.shape == known.given["key"].shape else array


def _turned(array: Array, known: LayerBackwardInputs) -> Array:  # noqa: ARG001  (an edit's)
    """(H·Dv,M), transposed where it is square."""
    return array.T if array.shape[0] == array.shape[1] else array


def _of_first_head(array: Array, known: LayerBackwardInputs) -> Array:
    """(H·Dv,M): of the output of the first head in the place of every head's."""
    width = array.shape[0] // known.call.heads
    return known.weight(OUT, np.tile(known.given[OUT][..., :width], known.call.heads))


def _stored_sums(array: Array, name: str, known: LayerBackwardInputs) -> Array:
    """(H·D,): a sum over batch entries and places each of whose partial sums is stored in the dtype."""
    io, total = known.io, np.zeros(array.shape, array.dtype)
    for row in known.back[name].reshape(-1, len(array)):
        total = (total + row).astype(io).astype(array.dtype)
    return total


def _without_rows(array: Array, name: str, known: LayerBackwardInputs) -> Array:  # noqa: ARG001  (an edit's)
    """(M,H·D): without the first place of each sequence."""
    return known.weight(name, known.given[name][:, 1:], known.back[name][:, 1:])


def _tied(found: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:  # noqa: ARG001  (an edit's)
    """The fused gradient is split in the order K, Q, V, where w_query and w_key, (M,H·D), have one shape."""
    pair = found["w_query"], found["w_key"]
    return {**found, "w_query": pair[1], "w_key": pair[0]} if pair[0].shape == pair[1].shape else found


FAULTS = (
    _fault("batch_mean", "Gradients of matrices are averaged over the batch, while their sum is expected.",
           _each("w_", _batch_mean), "gradients of parameters, B > 1"),
    _fault("of_last_entry", "Batch entries overwrite each other's gradient of a matrix; the last one stays.",
           _each("w_", _of_last_entry), "gradients of parameters, B > 1"),
    _fault("first_place_lost", "The first place of each sequence is left out of the gradients of matrices.",
           _each("w_", _without_rows)),
    _fault("key_of_query", "The gradient of w_key is formed with the query's input.",
           _only("w_key", _of_query_input), "gradients of parameters, T = S, a key that differs from the query"),
    _fault("fused_order", "The fused gradient of the input projections is split in the order K, Q, V.", _tied,
           "gradients of parameters, Hkv = H"),
    _fault("severed", "The gradients of w_query, w_key and w_value are zeros: the graph is severed behind them.",
           _each("w_", lambda array, name, _: np.zeros_like(array) if name in INPUTS else array),
           link="https://github.com/paiml/aprender/pull/2203"),
    _fault("out_turned", "The gradient of w_out is transposed.", _only("w_out", _turned),
           "gradients of parameters, H·Dv = M"),
    _fault("out_of_first_head", "The gradient of w_out is formed with the output of the first head.",
           _only("w_out", _of_first_head), "gradients of parameters, H > 1"),
    _fault("biases_forgotten", "The gradients of the biases of the input projections are zeros.",
           _each("b_", lambda array, name, _: np.zeros_like(array) if name in INPUTS else array),
           "gradients of parameters, a layer with biases"),
    _fault("biases_batch_mean", "The gradients of biases are averaged over the batch, while their sum is expected.",
           _each("b_", _batch_mean), "gradients of parameters, a layer with biases, B > 1"),
    _fault("biases_stored", "Sums for the gradients of biases are kept in the dtype.", _each("b_", _stored_sums),
           "gradients of parameters, a layer with biases, in half precision", same=_WIDE),
)


# The backward pass of the staged layer


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
        found, known = _attention_gradients(work, grad.astype(work.query.dtype), call.query.dtype)
        results = {**found, **{name: known.back[name] @ work.params[f"w_{name}"].T for name in INPUTS},
                   **edit(_of_parameters(known), known)}
        return {name: np.ascontiguousarray(array).astype(_dtype(name, call)) for name, array in results.items()}


def _attention_gradients(
        work: LayerCall, grad: Array, io: np.dtype[Any]) -> tuple[Mapping[str, Array], LayerBackwardInputs]:
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
