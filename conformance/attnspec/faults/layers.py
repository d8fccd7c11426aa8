"""Faults of layers: their projections, splits or merges are wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.nouns import Kind
from attnspec.faults import heads
from attnspec.faults import staged as core
from attnspec.faults import staged_forms as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged_forms import Layer, LayerCall, Params, attending, staged_layer
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.problems.problem import INPUTS, Array


def query_scaled_before_bias(x: Array, which: str, params: Params) -> Array:
    """The projected query (B,T,H·D) with four times its bias."""
    return sound.project(x, which, params) + params.get("b_query", np.float32(0)) * np.float32(3)  # 4 b, as for D = 16


def without_bias(x: Array, which: str, params: Params) -> Array:
    """The projection of x (B,·,M), or for `out` (B,T,H·Dv), without its bias."""
    return x @ params[f"w_{which}"]


def bias_twice(x: Array, which: str, params: Params) -> Array:
    """The projected value (B,S,Hkv·Dv) or output (B,T,M), with its bias added twice."""
    return sound.project(x, which, params) + params.get(f"b_{which}", np.zeros((), x.dtype))


def bias_subtracted(x: Array, which: str, params: Params) -> Array:
    """The projected query (B,T,H·D) with its bias subtracted."""
    return sound.project(x, which, params) - 2 * params.get(f"b_{which}", np.zeros((), x.dtype))


def as_if(other: str) -> Callable[[Array, str, Params], Array]:
    """A projection (B,·,M) with the parameters of another one, if their shapes agree."""
    def project(x: Array, which: str, params: Params) -> Array:
        """The projection of x (B,·,M) as `other`, if both weights have one shape."""
        fits = params[f"w_{which}"].shape == params[f"w_{other}"].shape
        return sound.project(x, other if fits else which, params)
    return project


def project_transposed(x: Array, which: str, params: Params) -> Array:
    """The projection of x (B,T,M) or (B,T,H·Dv) by a weight that is laid out (out, in)."""
    weight = params[f"w_{which}"]
    return sound.project(x, which, {**params, f"w_{which}": weight.T.reshape(weight.shape)})


def as_wide_as_query(x: Array, which: str, params: Params) -> Array:
    """Keys (B,S,M), projected by their own weight, read in the shape of the query's, (M,H·D)."""
    weight = params[f"w_{which}"].reshape(params["w_query"].shape)
    return sound.project(x, which, {**params, f"w_{which}": weight})


def skipped_if_square(x: Array, which: str, params: Params) -> Array:
    """The merged heads (B,T,H·Dv), not projected if H·Dv = M."""
    weight = params[f"w_{which}"]
    return x if weight.shape[0] == weight.shape[1] else sound.project(x, which, params)


def split_interleaved(x: Array, heads: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D): head h owns the columns h, h + H, h + 2H, …"""
    B, T, width = x.shape
    return x.reshape(B, T, width // heads, heads).transpose(0, 3, 1, 2)


def split_flat(x: Array, heads: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D) by a reshape without the transpose."""
    B, T, width = x.shape
    return x.reshape(B, heads, T, width // heads)


def merged_flat(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv) by a reshape without transposing back."""
    B, H, T, Dv = x.shape
    return x.reshape(B, T, H * Dv)


def merged_interleaved(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), the heads of each feature side by side."""
    B, H, T, Dv = x.shape
    return x.transpose(0, 2, 3, 1).reshape(B, T, H * Dv)


def merged_reversed(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), last head first."""
    return sound.merge(x[:, ::-1])


def first_head_everywhere(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), head 0 in the place of every head."""
    return sound.merge(np.broadcast_to(x[:, :1], x.shape))


_AVERAGED = Limits(grouped=True, broadcasts=True, weights="averaged")


def _fault(name: str, stage: Stage, story: str, reach: str, make: Callable[[], Layer], *,
           limits: Limits = Limits(grouped=True, broadcasts=True)) -> Fault:  # noqa: B008  (frozen)
    return Fault(name, stage, story, reach, make, kind=Kind.LAYER, limits=limits)


def _time_first() -> Layer:
    def answer(call: LayerCall) -> Array | tuple[Array, ...]:
        """The output (T,B,M); weights (B,H,T,S) as they are."""
        return core.change_output(sound.run_layer(call), lambda output: output.swapaxes(0, 1))
    return sound.as_layer(answer)


def _over_batch() -> Layer:
    """A layer that exchanges batch and time if shapes agree: sequences attend to each other."""
    def answer(call: LayerCall) -> Array | tuple[Array, ...]:
        """The output (B,T,M), with batch and time exchanged on the way in, and back."""
        if call.query.shape != call.key.shape or call.mask is not None or call.bias is not None:
            return sound.run_layer(call)
        turned = call.but(**{name: getattr(call, name).swapaxes(0, 1) for name in INPUTS})
        return core.change_output(sound.run_layer(turned), lambda output: output.swapaxes(0, 1))
    return sound.as_layer(answer)


def _truncating(call: LayerCall) -> LayerCall:
    """The call without the columns that heads of whole width leave over."""
    width = call.params["w_query"].shape[1]
    kept = width // call.heads * call.heads
    if kept == width:
        return sound.take(call)
    params = {name: array[..., :kept] for name, array in call.params.items()}
    params["w_out"] = call.params["w_out"][:kept]
    if "b_out" in call.params:
        params["b_out"] = call.params["b_out"]
    return sound.take(call.but(params=params))


def _taking(change: Callable[[LayerCall], LayerCall]) -> Callable[[LayerCall], LayerCall]:
    return lambda call: sound.take(change(call))


def _self_attention(call: LayerCall) -> LayerCall:
    return call.but(key=call.query, value=call.query) if call.key.shape == call.query.shape else call


def _memory_as_query(call: LayerCall) -> LayerCall:
    return call.but(query=call.key, key=call.query) if call.key.shape == call.query.shape else call


def _over_queries(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) whose sums over the queries are 1."""
    turned = core.normalise(core.exponentials(logits.swapaxes(-1, -2)))
    return turned.swapaxes(-1, -2)


def _with_residual(call: HandedOver, layer: LayerCall) -> tuple[Array, Array]:
    """Output (B,H,T,Dv) plus the projected query if shapes agree, and weights (B,H,T,S)."""
    output, weights = sound.attend(call, layer)
    if call.query.shape == output.shape:
        output = output + call.query
    return output, weights


_ASKED = "return_weights"

LAYER_FAULTS = (
    _fault("layer_scale_by_model_width", Stage.SCALE,
           "The logits are divided by sqrt(d_model), not by sqrt(d_k).", "M ≠ D",
           staged_layer(attend=lambda call, layer: sound.attend(call.but(scale=layer.query.shape[-1] ** -0.5), layer))),
    _fault("layer_unscaled", Stage.SCALE, "The division by sqrt(d_k) is forgotten.", "D > 1",
           staged_layer(attend=lambda call, layer: sound.attend(call.but(scale=1.0), layer))),
    _fault("layer_query_bias_too_large", Stage.PROJECTION,
           "The query's bias is multiplied by 4, as if the query, at D = 16, were scaled before the bias is added.",
           "b_query other than 0", staged_layer(project_query=query_scaled_before_bias)),
    _fault("layer_query_bias_dropped", Stage.PROJECTION, "The query projection leaves out its bias.",
           "b_query other than 0", staged_layer(project_query=without_bias)),
    _fault("layer_value_bias_dropped", Stage.PROJECTION,
           "The value projection leaves out its bias: the fused bias is added to queries and keys only.",
           "b_value other than 0", staged_layer(project_value=without_bias)),
    _fault("layer_value_bias_twice", Stage.PROJECTION, "The value's bias is added twice.",
           "b_value other than 0", staged_layer(project_value=bias_twice)),
    _fault("layer_out_bias_dropped", Stage.PROJECTION, "The output projection loses its bias in a conversion.",
           "b_out other than 0", staged_layer(project_out=without_bias)),
    _fault("layer_out_bias_twice", Stage.PROJECTION, "The output bias is added twice, once on each of two shards.",
           "b_out other than 0", staged_layer(project_out=bias_twice)),
    _fault("layer_query_bias_subtracted", Stage.PROJECTION,
           "The query's bias is subtracted: its sign was lost in a conversion.",
           "b_query other than 0", staged_layer(project_query=bias_subtracted)),
    _fault("layer_queries_and_keys_exchanged", Stage.PROJECTION,
           "The projections of query and key are exchanged: split in the order K, Q, V.",
           "Hkv = H, weights that differ", staged_layer(project_query=as_if("key"), project_key=as_if("query"))),
    _fault("layer_keys_and_values_exchanged", Stage.PROJECTION,
           "The projections of key and value are exchanged: split in the order Q, V, K.",
           "Dv = D, weights that differ", staged_layer(project_key=as_if("value"), project_value=as_if("key"))),
    _fault("layer_query_weight_for_all", Stage.PROJECTION, "Keys and values are projected by the query's weight.",
           "Hkv = H, weights that differ", staged_layer(project_key=as_if("query"), project_value=as_if("query"))),
    _fault("layer_query_weight_transposed", Stage.PROJECTION, "The (out, in) weights of another library.",
           "w_query that is not symmetric", staged_layer(project_query=project_transposed)),
    _fault("layer_out_weight_transposed", Stage.PROJECTION, "The (out, in) weights of another library.",
           "w_out that is not symmetric", staged_layer(project_out=project_transposed)),
    _fault("layer_out_projection_skipped", Stage.PROJECTION, "The output projection is built and never called.",
           "H·Dv = M", staged_layer(project_out=skipped_if_square)),
    _fault("layer_split_interleaved", Stage.SPLIT, "Each head takes every H-th column, not D neighbouring ones.",
           "H > 1, and D > 1 or Dv > 1", staged_layer(split=split_interleaved)),
    _fault("layer_split_not_transposed", Stage.SPLIT, "Heads are split by view(B, H, T, D) without the transpose.",
           "H > 1 and T > 1", staged_layer(split=split_flat)),
    _fault("layer_merge_not_transposed", Stage.MERGE, "Heads are merged by reshape without transposing back.",
           "H > 1 and T > 1", staged_layer(merge=merged_flat)),
    _fault("layer_heads_never_transposed", Stage.SPLIT,
           "Heads are split by a reshape without the transpose, and merged by one without transposing back.",
           "H > 1 and T > 1", staged_layer(split=split_flat, merge=merged_flat)),
    _fault("layer_merge_interleaved", Stage.MERGE, "Heads and features are exchanged in the merge.",
           "H > 1 and Dv > 1", staged_layer(merge=merged_interleaved)),
    _fault("layer_heads_reversed", Stage.MERGE, "Heads are merged in reverse order.", "H > 1",
           staged_layer(merge=merged_reversed)),
    _fault("layer_first_head_everywhere", Stage.MERGE, "Head 0 is computed for every head.",
           "H > 1", staged_layer(merge=first_head_everywhere)),
    _fault("layer_indivisible_truncated", Stage.SPLIT, "Columns that width // heads leaves over are cut off silently.",
           "heads that do not divide the width", staged_layer(take=_truncating)),
    _fault("layer_gqa_tiled", Stage.HEADS, "Grouped heads are tiled, while repeat is expected.", "1 < Hkv < H",
           staged_layer(attend=attending(group_key=heads.tile_heads, group_value=heads.tile_heads))),
    _fault("layer_key_width_of_query", Stage.PROJECTION,
           "The key's weight is read with the shape of the query's weight.", "Hkv < H",
           staged_layer(project_key=as_wide_as_query)),
    _fault("layer_attends_over_batch", Stage.SPLIT, "Batch and time are exchanged: the layer expects time first.",
           "T = S, B > 1 or T > 1, no mask and no bias", _over_batch),
    _fault("layer_softmax_over_queries", Stage.SOFTMAX, "dim=-2.", "T > 1 or S > 1",
           staged_layer(attend=attending(softmax=_over_queries))),
    _fault("layer_cross_is_self", Stage.PROJECTION, "Keys and values are projected from the query.",
           "T = S, a key that differs from the query", staged_layer(take=_taking(_self_attention))),
    _fault("layer_query_and_memory_exchanged", Stage.PROJECTION,
           "Query and key are exchanged: decoder and encoder states swap places.",
           "T = S, a key that differs from the query", staged_layer(take=_taking(_memory_as_query))),
    _fault("layer_value_from_key", Stage.PROJECTION,
           "The value argument is never used: only forward(x, x, x) was tested.",
           "a value that differs from the key", staged_layer(take=_taking(lambda call: call.but(value=call.key)))),
    _fault("layer_output_time_first", Stage.MERGE,
           "batch_first is forgotten: the output is (T,B,M).", "B > 1 or T > 1", _time_first),
    _fault("layer_residual_added", Stage.MERGE,
           "The projected query is added: the residual connection moved into the layer.", "Dv = D",
           staged_layer(attend=_with_residual)),
    _fault("layer_averaged_weights_summed", Stage.WEIGHTS,
           "The returned weights are the sum over heads, while the mean is expected.",
           f"{_ASKED}, H > 1", staged_layer(report=heads.sum_of_heads), limits=_AVERAGED),
    _fault("layer_averaged_weights_of_first", Stage.WEIGHTS,
           "The returned weights are those of head 0, while the mean is expected.",
           f"{_ASKED}, H > 1", staged_layer(report=heads.first_of_heads), limits=_AVERAGED),
    _fault("layer_averaged_weights_largest", Stage.WEIGHTS,
           "The returned weights are the largest of all heads, while the mean is expected.",
           f"{_ASKED}, H > 1", staged_layer(report=heads.largest_of_heads), limits=_AVERAGED),
    _fault("layer_averaged_weights_over_batch", Stage.WEIGHTS,
           "The returned weights are averaged over the batch too, not only over heads.",
           f"{_ASKED}, B > 1", staged_layer(report=heads.averaged_over_batch), limits=_AVERAGED),
)
