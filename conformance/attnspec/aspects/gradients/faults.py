"""Backward passes that are wrong though the forward pass beside them is right: scales, delta, sums, masks, the cap.

Some remember, overwrite what they are handed, or return gradients otherwise than they are due. Those of layers may be
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
    """A fault whose forward pass is sound, and the gradients of whose inputs are."""
    return Fault(f"grad_param_{name}", GRAD, story, reach, staged_layer(), kind=Kind.LAYER,
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


def _of_query_input(array: Array, known: LayerBackwardInputs) -> Array:
    """(M,Hkv·D): of the query's input in the place of the key's, where they are as long."""
    query = known.given["query"]
    return known.weight("key", query) if query.shape == known.given["key"].shape else array


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


def _tied(found: Mapping[str, Array], known: LayerBackwardInputs) -> Mapping[str, Array]:
    """The fused gradient is split in the order K, Q, V, where w_query and w_key, (M,H·D), have one shape."""
    pair = found["w_query"], found["w_key"]
    return {**found, "w_query": pair[1], "w_key": pair[0]} if pair[0].shape == pair[1].shape else found


PARAMETER_FAULTS = (
    _layer_fault("batch_mean", "Gradients of matrices are averaged over the batch, while their sum is expected.",
                 _each("w_", _batch_mean), "gradients of parameters, B > 1"),
    _layer_fault("of_last_entry", "Batch entries overwrite each other's gradient of a matrix; the last one stays.",
                 _each("w_", lambda _, name, known: known.weight(name, known.given[name][-1:], known.back[name][-1:])),
                 "gradients of parameters, B > 1"),
    _layer_fault("first_place_lost", "The first place of each sequence is left out of the gradients of matrices.",
                 _each("w_", lambda _, name, known: known.weight(
                     name, known.given[name][:, 1:], known.back[name][:, 1:]))),
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
    output, _ = output_and_weights(attention(handed.but(return_weights=True)))
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


_ANY = "gradients"
Change = Callable[[Mapping[str, Array], Mapping[str, Array]], Mapping[str, Array]]


def _with_results(change: Change = lambda found, _: found, *, read: Callable[[Array], Array] = lambda grad: grad,
                  ) -> Callable[[], AttendBackward]:
    """A maker of backward passes whose results are changed by a function of the results and the inputs; or that read
    another gradient of the output (B,H,T,Dv).
    """
    sound = as_backward(BackwardMethod())

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
        found = sound(query, key, value, read(grad_output), **keywords)
        return change(found, {"query": query, "key": key, "value": value, "grad_output": grad_output})

    return lambda: attend_backward


def _accumulating() -> AttendBackward:
    """One that adds to the buffers of the call before, where the shapes are the same."""
    before = dict[str, Array]()

    def add_up(found: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
        """Gradients by name, the query's (B,H,T,D) with that of the call before."""
        new, old = found["query"], before.get("query")
        before["query"] = new.copy()
        is_alike = old is not None and old.shape == new.shape and old.dtype == new.dtype
        return {**found, "query": new + old} if is_alike else found

    return _with_results(add_up)()


def _once(array: Array) -> Array:
    """(B,H,T,Dv): of one that is expanded, the one number in memory, and zeros for what lies beyond."""
    if all(stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True)):
        return array
    return np.where(np.arange(array.size).reshape(array.shape) == 0, array, 0).astype(array.dtype)


_TRAINING = [False]
"""Whether the function is left in training mode. A fresh forward pass is not."""


def _in_training() -> Attend:
    """A forward pass that drops weights once there was a backward pass."""
    _TRAINING[0] = False
    return as_attend(lambda call: attention(call, replace(SOUND, weigh=_drop_tenths) if _TRAINING[0] else SOUND))


def _drop_tenths(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,S): every tenth weight is dropped, the others grow."""
    kept = np.arange(weights.size).reshape(weights.shape) % 10 != 0
    return np.asarray(weights * kept / weights.dtype.type(0.9))


def _switching(found: Mapping[str, Array], _: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients by name, of any shape; the function is left in training mode."""
    _TRAINING[0] = True
    return found


def _overwriting(found: Mapping[str, Array], given: Mapping[str, Array]) -> Mapping[str, Array]:
    """The output's gradient (B,H,T,Dv) is scaled in place."""
    given["grad_output"][...] = given["grad_output"] * 2
    return found


def _state_fault(name: str, story: str, make: Callable[[], AttendBackward], reach: str = _ANY) -> Fault:
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), backward=make)


_MOST = 2.0
"""The largest entry of a gradient that is clipped."""


def _per_entry(found: Mapping[str, Array], given: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients of any shape; of the output's (B,H,T,Dv) each entry of the batch counts that has one."""
    counted = max(1, int(given["grad_output"].any(axis=(1, 2, 3)).sum()))
    return {name: (array / array.dtype.type(counted)).astype(array.dtype) for name, array in found.items()}


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
    _state_fault("in_float32", "Gradients come back in the dtype of the accumulators.",
                 _with_results(lambda found, _: {
                     name: array.astype(np.float64 if array.dtype == np.float32 else np.float32)
                     for name, array in found.items()})),
    _state_fault("key_for_value", "The gradients of key and value are returned in the wrong order.",
                 _with_results(lambda found, _: {**found, "key": found["value"], "value": found["key"]}
                               if found["key"].shape == found["value"].shape else found), "Dv = D"),
    _state_fault("batch_mean", "Gradients are divided by the number of entries of the batch that have one.",
                 _with_results(_per_entry), "a batch of several entries"),
    _state_fault("clipped", "Gradients are clipped, before a loss scale is taken out again.",
                 _with_results(lambda found, _: {name: np.clip(array, -_MOST, _MOST) for name, array in found.items()}),
                 "gradients beyond ±2"),
    _state_fault("query_aliases", "The query's gradient is written over the query.",
                 _with_results(lambda found, given: {**found, "query": _fill_buffer(given["query"], found["query"])})),
)


def _fill_buffer(buffer: Array, array: Array) -> Array:
    """(B,H,T,D): the buffer, holding the array."""
    buffer[...] = array
    return buffer


_SCALED = "gradients, a scale other than 1"
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_TOO_SMALL = dict.fromkeys(_HALVES, "an error of 1e-5 is below a hundredth of a rounding")
_EXACT = dict.fromkeys(_HALVES, "TF32 holds every number of this dtype")


def _one(array: Array, known: BackwardValues) -> Array:
    """Of any shape, ones."""
    return np.ones_like(array)


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
           delta=lambda _, known: (known.taken.grad * known.output)[..., : -(-known.output.shape[-1] // 2)].sum(
                       axis=-1, keepdims=True)),
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
           lse=lambda a, known: a if known.taken.call.sinks is None else a + np.log1p(
                       -np.minimum(known.weights[..., known.taken.keys:], 0.999))),
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
