"""Faults of backward passes beside sound forward passes: in scales, delta, sums, masks, or the
bias.

Some remember, overwrite their inputs, or return gradients in another form. Those of layers may be
wrong in the gradients of parameters alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType, Kind
from attnspec.faults import backward as edit
from attnspec.faults.backward import (
    BFLOAT16,
    FLOAT16,
    AttendBackward,
    BackwardMethod,
    BackwardValues,
    as_backward,
    backward,
    store_in,
    times,
    where,
)
from attnspec.faults.backward import gradient_fault as _fault
from attnspec.faults.fault import AspectFaults, Fault, Outside
from attnspec.faults.staged import SOUND, Attend, as_attend, attention, staged
from attnspec.faults.staged_forms import (
    SOUND_LAYER,
    LayerCall,
    Params,
    heads_of,
    merge,
    output_and_weights,
    split,
    staged_layer,
    take,
)
from attnspec.faults.staged_work import PreparedCall
from attnspec.faults.state import misread
from attnspec.problems.problem import INPUTS, Array

_REACH = "gradients of parameters"
_WIDE = dict.fromkeys((DType.FLOAT64, DType.FLOAT32), "sums are added up in the dtype anyway")


def _layer_fault(name: str, story: str, edit: Edit, reach: str = _REACH, *,
                 same: Mapping[DType, str] | None = None) -> Fault:
    """A fault in the gradients of a layer's parameters; the rest is sound."""
    return Fault(f"grad_param_{name}", GRAD, story, reach, staged_layer(), kind=Kind.LAYER,
                 equivalents=same or {}, backward=lambda: as_layer_backward(edit))


def _each(prefix: str, change: Callable[[Array, str, LayerBackwardInputs], Array]) -> Edit:
    """An edit of all gradients whose names have a prefix: w_query (M,H·D) or b_query (H·D,)."""
    def edit(gradients: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
        """Gradients by name, of any shape."""
        chosen = {name: change(array, name[2:], known) for name, array in gradients.items() if name.startswith(prefix)}
        return {**gradients, **chosen}
    return edit


def _only(name: str, change: Callable[[Array, LayerBackwardInputs], Array]) -> Edit:
    """An edit of one gradient, such as w_query (M,H·D), if the layer has that parameter."""
    def edit(gradients: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
        """Gradients by name, of any shape."""
        if name not in gradients:
            return gradients
        return {**gradients, name: change(gradients[name], known)}
    return edit


def _batch_mean(array: Array, name: str, known: LayerBackwardInputs) -> Array:
    """The gradient (M,H·D) or (H·D,), divided by the number of batch entries."""
    return array / array.dtype.type(len(known.inputs[name]))


def _of_query_input(array: Array, known: LayerBackwardInputs) -> Array:
    """The gradient of w_key (M,Hkv·D), of the query's input if that is as long as the key's."""
    query = known.inputs["query"]
    return known.weight("key", query) if query.shape == known.inputs["key"].shape else array


def _of_first_head(array: Array, known: LayerBackwardInputs) -> Array:
    """The gradient of w_out (H·Dv,M), of the first head's output for every head."""
    width = array.shape[0] // known.call.heads
    return known.weight(OUT, np.tile(known.inputs[OUT][..., :width], known.call.heads))


def _stored_sums(array: Array, name: str, known: LayerBackwardInputs) -> Array:
    """The gradient of a bias (H·D,), whose partial sums are stored in the dtype."""
    io, total = known.io, np.zeros(array.shape, array.dtype)
    for row in known.grads[name].reshape(-1, len(array)):
        total = (total + row).astype(io).astype(array.dtype)
    return total


def _tied(gradients: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
    """The fused gradient is split as K, Q, V, if w_query and w_key, (M,H·D), have one shape."""
    query, key = gradients["w_query"], gradients["w_key"]
    return {**gradients, "w_query": key, "w_key": query} if query.shape == key.shape else gradients


PARAMETER_FAULTS = (
    _layer_fault("batch_mean", "Gradients of matrices are averaged over the batch, while their sum is expected.",
                 _each("w_", _batch_mean), "gradients of parameters, B > 1"),
    _layer_fault("of_last_entry", "Batch entries overwrite each other's gradient of a matrix; the last one stays.",
                 _each("w_", lambda _, name, known: known.weight(
                     name, known.inputs[name][-1:], known.grads[name][-1:])),
                 "gradients of parameters, B > 1"),
    _layer_fault("first_place_lost", "The first place of each sequence is left out of the gradients of matrices.",
                 _each("w_", lambda _, name, known: known.weight(
                     name, known.inputs[name][:, 1:], known.grads[name][:, 1:]))),
    _layer_fault("key_of_query", "The gradient of w_key is formed with the query's input.",
                 _only("w_key", _of_query_input), "gradients of parameters, T = S, a key that differs from the query"),
    _layer_fault("fused_order", "The fused gradient of the input projections is split in the order K, Q, V.", _tied,
                 "gradients of parameters, Hkv = H"),
    _layer_fault("severed", "The gradients of w_query, w_key and w_value are zeros: the graph is severed behind them.",
                 _each("w_", lambda array, name, _: np.zeros_like(array) if name in INPUTS else array)),
    _layer_fault("out_turned", "The gradient of w_out is transposed.",
                 _only("w_out", lambda array, _: array.T if array.shape[0] == array.shape[1] else array),
                 "gradients of parameters, H·Dv = M"),
    _layer_fault("out_of_first_head", "The gradient of w_out is formed with the output of the first head.",
                 _only("w_out", _of_first_head), "gradients of parameters, H > 1"),
    _layer_fault("biases_forgotten", "The gradients of the biases of the input projections are zeros.",
                 _each("b_", lambda array, name, _: np.zeros_like(array) if name in INPUTS else array),
                 "gradients of parameters, a layer with biases"),
    _layer_fault("biases_batch_mean",
                 "The gradients of biases are averaged over the batch, while their sum is expected.",
                 _each("b_", _batch_mean), "gradients of parameters, a layer with biases, B > 1"),
    _layer_fault("biases_stored", "Sums for the gradients of biases are kept in the dtype.", _each("b_", _stored_sums),
                 "gradients of parameters, a layer with biases, in half precision", same=_WIDE),
)


# The backward pass of the staged layer


OUT = "out"


@dataclass(frozen=True, slots=True, eq=False)
class LayerBackwardInputs:
    """The inputs of a layer's backward pass.

    inputs: what enters each projection, query (B,T,M) and its like, and the merged heads, out
    (B,T,H·Dv).  grads: the gradients of what each projection returns, (B,T,H·D) and its like,
    (B,T,M) of the output.  io: the dtype of the inputs.
    """

    call: LayerCall
    io: np.dtype[Any]
    params: Params
    inputs: Mapping[str, Array]
    grads: Mapping[str, Array]

    def weight(self, name: str, given: Array | None = None, grad: Array | None = None) -> Array:
        """The gradient of a projection's matrix, (M,H·D), by its own arrays (B,T,·) or these."""
        given = self.inputs[name] if given is None else given
        grad = self.grads[name] if grad is None else grad
        return np.einsum("blm,bln->mn", given, grad, optimize=True)


Edit = Callable[[Mapping[str, Array], LayerBackwardInputs], Mapping[str, Array]]
"""Changes to the gradients of parameters, by name and in the dtype of the computation."""


class LayerBackward(Protocol):
    """The contract of a layer's backward pass."""

    def __call__(self, query: Array, key: Array, value: Array, grad_output: Array, *, params: Params, heads: int,
                 **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (LayerCall's)
        """The gradients of inputs and parameters, by name, each in the shape and dtype of its own.

        query (B,T,M), key and value (B,S,M), grad_output (B,T,M).
        """


def layer_backward(call: LayerCall, grad: Array, edit: Edit) -> dict[str, Array]:
    """The gradients of a call, given that of its output, grad (B,T,M)."""
    with np.errstate(all="ignore"):
        work = take(call)
        gradients, known = _attention_gradients(work, grad.astype(work.query.dtype), call.query.dtype)
        of_inputs = {name: known.grads[name] @ work.params[f"w_{name}"].T for name in INPUTS}
        results = {**gradients, **of_inputs, **edit(_of_parameters(known), known)}
        return {name: np.ascontiguousarray(array).astype(_dtype(name, call)) for name, array in results.items()}


def _attention_gradients(work: LayerCall, grad: Array, io: np.dtype[Any],
                         ) -> tuple[Mapping[str, Array], LayerBackwardInputs]:
    """By name, the gradients of what attention takes, and what later steps take; grad (B,T,M)."""
    call = heads_of(work, SOUND_LAYER)
    output, _ = output_and_weights(attention(call.but(return_weights=True)))
    of_heads = grad @ work.params["w_out"].T if "w_out" in work.params else grad
    gradients = backward(call, split(of_heads, work.heads))
    inputs = {**{name: getattr(work, name) for name in INPUTS}, OUT: merge(output)}
    grads = {**{name: merge(gradients[name]) for name in INPUTS}, OUT: grad}
    return gradients, LayerBackwardInputs(work, io, work.params, inputs, grads)


def _of_parameters(known: LayerBackwardInputs) -> Mapping[str, Array]:
    """The gradients of all parameters: w_query (M,H·D), b_query (H·D,) and their like."""
    weights = {f"w_{name}": known.weight(name) for name in known.inputs if f"w_{name}" in known.params}
    biases = {f"b_{name}": grad.sum(axis=(0, 1)) for name, grad in known.grads.items() if f"b_{name}" in known.params}
    return {**weights, **biases}


def _dtype(name: str, call: LayerCall) -> np.dtype[Any]:
    """The dtype of a gradient: that of its input; for parameters, that of the query."""
    array: Array = getattr(call, name, call.query)
    return array.dtype


def as_layer_backward(edit: Edit) -> LayerBackward:
    """A layer's backward pass, as a function of arrays and keywords."""

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array, *, params: Params, heads: int,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (LayerCall's)
        """Query (B,T,M), key and value (B,S,M), grad_output (B,T,M) -> gradients by name."""
        return layer_backward(LayerCall(query, key, value, params, heads, **keywords), grad_output, edit)

    return attend_backward


_ANY = "gradients"
Change = Callable[[Mapping[str, Array], Mapping[str, Array]], Mapping[str, Array]]


def _with_results(change: Change = lambda gradients, _: gradients, *,
                  read: Callable[[Array], Array] = lambda grad: grad) -> Callable[[], AttendBackward]:
    """A maker of backward passes that change their results, or read another gradient of the output
    (B,H,T,Dv).

    change: of the gradients and the inputs, both by name.
    """
    sound = as_backward(BackwardMethod())

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad (B,H,T,Dv) -> gradients."""
        gradients = sound(query, key, value, read(grad_output), **keywords)
        return change(gradients, {"query": query, "key": key, "value": value, "grad_output": grad_output})

    return lambda: attend_backward


def _accumulating() -> AttendBackward:
    """A backward pass that adds up the query's gradients of calls of the same shapes."""
    before = dict[str, Array]()

    def add_up(gradients: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
        """Gradients by name, the query's (B,H,T,D) with that of the call before."""
        new, old = gradients["query"], before.get("query")
        before["query"] = new.copy()
        if old is None or old.shape != new.shape or old.dtype != new.dtype:
            return gradients
        return {**gradients, "query": new + old}

    return _with_results(add_up)()


def _once(array: Array) -> Array:
    """A gradient (B,H,T,Dv); if it is expanded, its one number in memory, and 0 for all others."""
    if all(stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True)):
        return array
    return np.where(np.arange(array.size).reshape(array.shape) == 0, array, 0).astype(array.dtype)


_TRAINING = [False]
"""Whether the function is left in training mode. A fresh forward pass is not."""


def _in_training() -> Attend:
    """A forward pass that drops weights once there was a backward pass."""
    _TRAINING[0] = False
    training = replace(SOUND, weigh=_drop_tenths)
    return as_attend(lambda call: attention(call, training if _TRAINING[0] else SOUND))


def _drop_tenths(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), of which every tenth is dropped and the others grow."""
    kept = np.arange(weights.size).reshape(weights.shape) % 10 != 0
    return np.asarray(weights * kept / weights.dtype.type(0.9))


def _switching(gradients: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients by name, of any shape; the function is left in training mode."""
    _TRAINING[0] = True
    return gradients


def _overwriting(gradients: Mapping[str, Array], inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients by name; that of the output (B,H,T,Dv) is scaled in place."""
    inputs["grad_output"][...] = inputs["grad_output"] * 2
    return gradients


def _state_fault(name: str, story: str, make: Callable[[], AttendBackward], reach: str = _ANY) -> Fault:
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), backward=make)


_MOST = 2.0
"""The largest entry of a gradient that is clipped."""


def _per_entry(gradients: Mapping[str, Array], inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients, over the number of batch entries whose output's gradient (B,H,T,Dv) is not 0."""
    count = max(1, int(inputs["grad_output"].any(axis=(1, 2, 3)).sum()))
    return {name: (array / array.dtype.type(count)).astype(array.dtype) for name, array in gradients.items()}


def _in_other_dtype(gradients: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients of any shape, in float64 if they are float32, else in float32."""
    return {name: array.astype(np.float64 if array.dtype == np.float32 else np.float32)
            for name, array in gradients.items()}


def _exchange_key_and_value(gradients: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients by name, of key (B,Hkv,S,D) and value exchanged if they have one shape."""
    key, value = gradients["key"], gradients["value"]
    return {**gradients, "key": value, "value": key} if key.shape == value.shape else gradients


STATE_FAULTS = (
    _state_fault("accumulates", "The query's gradient is added to a buffer that is not cleared.",
                 _accumulating, "a second call of the same shapes"),
    _state_fault("ignores_strides", "The output's gradient is read by the strides of the output.",
                 _with_results(read=misread), "an output's gradient that is not contiguous"),
    _state_fault("expanded_once", "Of an output's gradient at stride 0, memory beyond its one number is read.",
                 _with_results(read=_once), "an output's gradient that is expanded"),
    Fault("grad_switches_to_training", GRAD, "A backward pass leaves the function in training mode.",
          "a call after a backward pass", _in_training, backward=_with_results(_switching)),
    _state_fault("overwrites", "The output's gradient is scaled in place.", _with_results(_overwriting)),
    _state_fault("in_float32", "Gradients come back in the dtype of the accumulators.", _with_results(_in_other_dtype)),
    _state_fault("key_for_value", "The gradients of key and value are returned in the wrong order.",
                 _with_results(_exchange_key_and_value), "Dv = D"),
    _state_fault("batch_mean", "Gradients are divided by the number of entries of the batch that have one.",
                 _with_results(_per_entry), "a batch of several entries"),
    _state_fault("clipped", "Gradients are clipped, before a loss scale is taken out again.",
                 _with_results(lambda gradients, _: {
                     name: np.clip(array, -_MOST, _MOST) for name, array in gradients.items()}),
                 "gradients beyond ±2"),
    _state_fault("query_aliases", "The query's gradient is written over the query.",
                 _with_results(lambda gradients, inputs: {
                     **gradients, "query": _fill_buffer(inputs["query"], gradients["query"])})),
)


def _fill_buffer(buffer: Array, array: Array) -> Array:
    """The buffer (B,H,T,D), holding the array."""
    buffer[...] = array
    return buffer


_SCALED = "gradients, a scale other than 1"
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_TOO_SMALL = dict.fromkeys(_HALVES, "an error of 1e-5 is below a hundredth of a rounding")
_EXACT = dict.fromkeys(_HALVES, "TF32 holds every number of this dtype")


def _one(array: Array, known: BackwardValues) -> Array:
    """An array of any shape, replaced by ones."""
    return np.ones_like(array)


def _first_half(array: Array) -> Array:
    """(B,H,T,Dv) -> (B,H,T,·): the first half of the channels."""
    return array[..., :-(-array.shape[-1] // 2)]


_SCALES = (
    _fault("query_unscaled", "The query's gradient is not multiplied by the scale.", _SCALED, query_scale=_one),
    _fault("key_unscaled", "The key's gradient is not multiplied by the scale.", _SCALED, key_scale=_one),
    _fault("key_scaled_twice", "The key's gradient is scaled in the kernel and after it.",
           "gradients, a scale other than 0 and 1", key_scale=lambda a, _: a * a),
    _fault("key_scale_of_values", "The key's gradient is scaled by 1/sqrt(Dv), whatever scale is given.",
           "gradients with Dv ≠ D, or together with scale",
           key_scale=lambda a, known: a * 0 + known.taken.value.shape[-1] ** -0.5),
    _fault("query_scale_default", "The query's gradient is scaled by 1/sqrt(D), whatever scale is given.",
           "gradients together with scale", query_scale=lambda a, known: a * 0 + known.taken.query.shape[-1] ** -0.5),
    _fault("scale_default_anew", "The backward pass is not told the scale and takes 1/sqrt(D).",
           "gradients together with scale", reread=edit.reread_without("scale")),
    _fault("query_one_percent", "A constant of the query's gradient is off by a hundredth.", query_scale=times(1.01)),
    _fault("key_one_thousandth", "A constant of the key's gradient is off by a thousandth.", key_scale=times(1.001)),
    _fault("scores_one_thousandth", "A factor of dS is off by a thousandth.", wide_scores=times(1.001)),
)

_DELTA = (
    _fault("without_delta", "The weighted mean of dP in a row, sum(P·dP), is not subtracted.", delta=edit.zero),
    _fault("delta_negated", "The weighted mean of dP in a row is added, not subtracted.", delta=times(-1)),
    _fault("delta_twice", "The weighted mean of dP in a row is subtracted twice.", delta=times(2)),
    _fault("delta_of_next_row", "Delta is that of the neighbouring query.", "T > 1", delta=edit.take_neighbour(2)),
    _fault("delta_of_next_head", "Delta is that of the neighbouring head.", "H > 1", delta=edit.take_neighbour(1)),
    _fault("delta_of_output", "Delta is the output times itself.",
           delta=lambda _, known: (known.returned**2).sum(axis=-1, keepdims=True)),
    _fault("delta_bfloat16", "Delta is stored in bfloat16.", delta=store_in(BFLOAT16)),
    _fault("delta_of_float16", "Delta comes of an output that was stored in float16.",
           delta=lambda _, known: (known.taken.grad * store_in(FLOAT16)(known.output, known)).sum(-1, keepdims=True)),
    _fault("delta_lost_at_tile", "The last query of a tile has no delta.", "T > 15",
           delta=where(lambda rows, _: rows % 16 == 15, edit.zero)),
    _fault("delta_unweighted", "Delta is taken off behind the product with the weights.",
           wide_scores=lambda _, known: known.weights * known.products - np.where(known.weights > 0, known.delta, 0)),
    _fault("delta_of_half", "Delta is summed over the first half of the channels.", "Dv > 1",
           delta=lambda _, known: _first_half(known.taken.grad * known.output).sum(axis=-1, keepdims=True)),
)

_WEIGHTS = (
    _fault("weights_unnormalised", "Recomputed weights are not divided by their sum.",
           weights=lambda _, known: known.exponentials),
    _fault("value_weights_unnormalised", "The weights of the value's gradient are not divided by their sum.",
           value_weights=lambda _, known: known.exponentials),
    _fault("weights_epsilon", "An epsilon stands in the denominator, in the backward pass alone.",
           same=_TOO_SMALL, weights=edit.with_epsilon),
    _fault("weights_float16", "Recomputed weights are stored in float16.", weights=store_in(FLOAT16)),
    _fault("weights_bfloat16", "Recomputed weights are stored in bfloat16.", weights=store_in(BFLOAT16)),
    _fault("dropout_left_on", "The backward pass drops weights which the forward pass has kept.",
           weights=edit.drop_tenths),
    _fault("short_logarithm", "log2(e) has four digits in the backward kernel.", weights=edit.of_short_logarithm),
    _fault("lse_base_two", "The log-sum-exp is read to base two.", lse=lambda a, _: a / a.dtype.type(np.log(2))),
    _fault("lse_bfloat16", "The log-sum-exp is kept in bfloat16.", lse=store_in(BFLOAT16)),
    _fault("lse_of_next_row", "The log-sum-exp is that of the neighbouring query.", "T > 1",
           lse=edit.take_neighbour(2)),
    _fault("lse_of_next_head", "The log-sum-exp is that of the neighbouring head.", "H > 1",
           lse=edit.take_neighbour(1)),
    _fault("products_tf32", "dP is formed in TF32.", same=_EXACT, products=edit.products_tf32),
    _fault("products_of_first_head", "dP is formed with the values of the first head.", "Hkv > 1",
           products=lambda _, known: known.taken.grad @ known.taken.value[:, :1].swapaxes(-1, -2)),
    _fault("scores_bfloat16", "dS is stored in bfloat16.", scores=store_in(BFLOAT16)),
    _fault("scores_float16", "dS is stored in float16.", scores=store_in(FLOAT16)),
    _fault("scores_truncated", "dS is cut off to 16 bits.", scores=edit.cut_to_16_bits),
)

_READ = (
    _fault("misread", "The output's gradient is read as if channels came before queries.",
           "T > 1 and Dv > 1", grad=edit.misread),
    _fault("heads_misread", "The output's gradient is read as if it lay (B,T,H,Dv).",
           "H > 1 and T > 1", grad=edit.heads_misread),
    _fault("of_first_entry", "All batch entries have the output's gradient of the first.", "B > 1",
           grad=lambda a, _: a[:1] + 0 * a),
    _fault("of_first_row", "A gradient at stride 0 is taken for granted: the first query's serves all.", "T > 1",
           grad=lambda a, _: a[:, :, :1] + 0 * a),
    _fault("value_of_next_head", "The value's gradient is formed with the neighbouring head's.",
           "H > 1", value_grad=edit.take_neighbour(1)),
    _fault("query_of_first_keys", "The query's gradient is formed with the keys of the first head.", "Hkv > 1",
           query_keys=lambda a, _: a[:, :1] + 0 * a),
    _fault("key_of_next_queries", "The key's gradient is formed with the neighbouring head's queries.", "H > 1",
           key_queries=edit.take_neighbour(1)),
    _fault("key_transposed", "dS is not transposed for the key's gradient.", "T = S > 1",
           key_dots=lambda a, _: a.swapaxes(-1, -2) if a.shape[-1] == a.shape[-2] else a),
    _fault("key_channels_reversed", "The key's channels are written in the order of the registers.", "D > 1",
           key_result=lambda a, _: a[..., ::-1]),
    _fault("key_of_other_entry", "The key's gradient is written to another batch entry.", "B > 1",
           key_sum=lambda a, _: a[::-1]),
    _fault("value_of_other_entry", "The value's gradient is written to another batch entry.",
           "B > 1", value_sum=lambda a, _: a[::-1]),
)

_SUMS = (
    _fault("key_of_one_head", "Of a group, the first head's gradient of the key is kept.",
           "Hkv < H", key_sum=edit.first_of_group),
    _fault("value_of_one_head", "Of a group, the first head's gradient of the value is kept.",
           "Hkv < H", value_sum=edit.first_of_group),
    _fault("key_group_mean", "The key's gradient is the mean over the group.", "Hkv < H", key_sum=edit.mean_of_group),
    _fault("value_group_mean", "The value's gradient is the mean over the group.", "Hkv < H",
           value_sum=edit.mean_of_group),
    _fault("key_groups_by_turns", "Gradients of heads by turns are added up.", "1 < Hkv < H",
           key_sum=edit.groups_by_turns),
    _fault("last_keys_skipped", "The last block of keys is left out of the query's gradient.", "S > 16",
           query_dots=where(lambda _, keys: edit.last_block(keys) & (len(keys) > edit.BLOCK), edit.zero)),
    _fault("update_lost", "Two blocks write the query's gradient at once, and the last one stays.",
           "S > 16", query_dots=where(lambda _, keys: ~edit.last_block(keys), edit.zero)),
    _fault("block_twice", "The first block of queries is added to the key's gradient twice.",
           "T > 4", key_dots=where(lambda rows, _: (rows < 4) & (len(rows) > 4), times(2))),
    _fault("last_rows_skipped", "Queries beyond the last whole block are left out of the value's gradient.",
           "T > 16, not a multiple of 16",
           value_weights=where(lambda rows, _: (rows >= len(rows) // 16 * 16) & (len(rows) > 16), edit.zero)),
    _fault("without_diagonal", "The key at a query's own place is left out of the key's gradient.",
           key_dots=where(np.equal, edit.zero)),
    _fault("query_float16", "The query's gradient is stored in float16.", query_result=store_in(FLOAT16),
           same={DType.FLOAT16: "it is returned in float16 anyway"}),
    _fault("query_fixed_point", "The query's gradient is stored in fixed point.",
           query_result=lambda a, _: np.round(a, 4)),
    _fault("partial_sums_stored", "Sums are stored in the dtype after every 32 terms.",
           "T > 32 or S > 32 in half precision", BackwardMethod(frozenset({"partial"}), block=32),
           same={DType.FLOAT64: "it is computed in the dtype", DType.FLOAT32: "it is computed in the dtype"}),
)

_VISIBILITY = (
    _fault("hidden_keys_leak", "Hidden keys get a thousandth of the output's gradient.", "hidden keys",
           value_weights=lambda a, known: np.where(known.taken.visible, a, a.dtype.type(1e-3))),
    _fault("causal_dropped", "The backward pass is not causal.", "gradients together with causal",
           reread=edit.reread_without("causal")),
    _fault("causal_off_by_one", "The backward pass leaves out the diagonal.", "gradients together with causal",
           weights=lambda a, known: np.where(known.taken.call.causal & np.equal(*edit.places(known)), 0, a)),
    _fault("mask_dropped", "The backward pass does not mask.", "gradients together with mask",
           reread=edit.reread_without("mask")),
    _fault("bias_dropped", "Weights are recomputed without the bias.",
           "gradients together with bias", reread=edit.reread_without("bias")),
    _fault("key_lengths_dropped", "The backward pass knows no lengths.",
           "gradients together with key_lengths", reread=edit.reread_without("key_lengths")),
    _fault("empty_row_nan", "0/0 stands in the gradients of rows that see no key.", "a row that sees no key",
           scores=lambda a, known: np.where(edit.empty_rows(known), np.nan, a)),
    _fault("empty_row_mean", "A row that sees no key has the gradient of a mean.", "a row that sees no key",
           scores=lambda a, known: np.where(edit.empty_rows(known), (known.products - known.delta) / a.shape[-1], a)),
)

def _without_sink(lse: Array, known: BackwardValues) -> Array:
    """The log-sum-exp (B,H,T,1) without the sink, which has the last weight of a row."""
    if known.taken.call.sinks is None:
        return lse
    return lse + np.log1p(-np.minimum(known.weights[..., known.taken.keys:], 0.999))


_ADDED = (
    _fault("bias_scaled", "The bias's gradient is multiplied by the scale.", "gradients together with bias",
           full_bias=lambda a, known: a * a.dtype.type(known.taken.factor)),
    _fault("bias_not_summed", "Of a bias that is broadcast, the first row's gradient is kept.",
           "gradients together with a bias of four axes that is broadcast",
           bias_sum=lambda a, known: known.scores[tuple(map(slice, a.shape))] if a.ndim == 4 else a),
    _fault("bias_mean", "The gradient of a bias that is broadcast is a mean.",
           "gradients together with a bias that is broadcast",
           bias_sum=lambda a, known: a * a.dtype.type(a.size / known.scores[..., :known.taken.keys].size)),
    _fault("bias_leaks", "The bias's gradient is not masked.", "gradients together with bias and hidden keys",
           full_bias=lambda a, known: np.where(known.taken.visible[..., :known.taken.keys], a, a.dtype.type(1e-3))),
    _fault("sinks_negated", "The sink's gradient has the opposite sign.",
           "gradients together with sinks", sinks_sum=times(-1)),
    _fault("sinks_of_first_entry", "The sink's gradient is that of the first batch entry.",
           "gradients together with sinks and B > 1",
           sinks_sum=lambda _, known: known.scores[:1, :, :, known.taken.keys].sum(axis=(0, 2))),
    _fault("sinks_dropped", "Weights are recomputed without the sink's share.", "gradients together with sinks",
           lse=_without_sink),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {"backward pass": {
    "ROCm/aotriton/issues/236": "grad_ignores_strides",
    "marin-community/levanter/pull/449": "grad_key_of_one_head grad_value_of_one_head",
    "XunhaoLai/native-sparse-attention-triton/issues/27": "grad_key_groups_by_turns",
    "pytorch/pytorch/issues/41508": "grad_empty_row_nan",
    "facebookresearch/xformers/pull/467": "grad_partial_sums_stored",
    "huggingface/diffusers/pull/14341": "grad_heads_misread",
    "paiml/aprender/pull/2203": "grad_param_severed",
    "hao-ai-lab/FastVideo/pull/925": "grad_key_lengths_dropped",
}}

MISTAKES = AspectFaults(
    about={GRAD: (*_SCALES, *_DELTA, *_WEIGHTS, *_READ, *_SUMS, *_VISIBILITY, *_ADDED)},
    backward=(*STATE_FAULTS, *PARAMETER_FAULTS), bugs=_BUGS)
