"""Faults of heads and batch entries, which are mixed up or grouped in the wrong order; of what is
returned: weights, shapes, dtypes; and of paths for special cases, or behind hidden switches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import around, attention, change_output, staged
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

_GROUPED = "1 < Hkv < H"


def _group_both(group: Callable[[Array, int], Array]) -> dict[str, Callable[[Array, int], Array]]:
    """The same grouping, (B,Hkv,S,·) -> (B,H,S,·), for keys and values."""
    return {"group_key": group, "group_value": group}


def tile_heads(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): query head h uses h % Hkv."""
    return np.tile(array, (1, H // array.shape[1], 1, 1))


def _first(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): every query head uses head 0."""
    return sound.group(array[:, :1], H)


def _shifted_groups(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): head h uses (h + 1) // (H / Hkv), the last one clamped."""
    Hkv = array.shape[1]
    if Hkv == H:
        return array
    return array[:, np.minimum((np.arange(H) + 1) // (H // Hkv), Hkv - 1)]


def _repeated_in_time(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): repeated along time, then reshaped to H heads."""
    B, Hkv, S, width = array.shape
    return np.repeat(array, H // Hkv, axis=2).reshape(B, Hkv, H // Hkv, S, width).reshape(B, H, S, width)


def _repeated_over_batch(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): all B·Hkv heads tiled as one axis, across the batch."""
    B, Hkv, S, width = array.shape
    return np.tile(array.reshape(B * Hkv, S, width), (H // Hkv, 1, 1)).reshape(B, H, S, width)


def _two_per_group(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): two query heads in a group, whatever H / Hkv is."""
    return array[:, np.arange(H) // 2 % array.shape[1]] if array.shape[1] < H else array


def _mix_heads_and_time(array: Array) -> Array:
    """(B,H,S,·), read as (B,S,H,·) and transposed."""
    B, H, S, width = array.shape
    return array.reshape(B, S, H, width).swapaxes(1, 2)


def _batch_for_heads(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): folded as (B·H) and unfolded as (H·B)."""
    grouped = sound.group(array, H)
    B, _, S, width = grouped.shape
    return grouped.reshape(H, B, S, width).swapaxes(0, 1)


def _values_with_keys(call: HandedOver) -> PreparedCall:
    """The keys serve for values where they have the same shape."""
    return sound.take(call.but(value=call.key) if call.key.shape == call.value.shape else call)


def _keys_with_queries(call: HandedOver) -> PreparedCall:
    """The queries serve for keys where they have the same shape."""
    return sound.take(call.but(key=call.query) if call.key.shape == call.query.shape else call)


def _interleave_heads(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), whose heads and features are filled as (Dv,H)."""
    B, H, T, Dv = output.shape
    return output.transpose(0, 2, 3, 1).reshape(B, T, H, Dv).swapaxes(1, 2)


def _merged_flat(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), read as (B,T,H,Dv), with the heads turned to the front again."""
    B, H, T, Dv = output.shape
    return output.reshape(B, T, H, Dv).swapaxes(1, 2)


def _last_head_lost(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with zeros in the last of several heads."""
    H = work.shape[1]
    return np.where((np.arange(H) == H - 1)[:, None, None] & (H > 1), 0, output).astype(output.dtype)


HEAD_FAULTS = (
    Fault("gqa_tiled", Stage.HEADS, "Grouped heads are tiled (h % Hkv), while repeat (h // group) is expected.",
          _GROUPED, staged(**_group_both(tile_heads))),
    Fault("gqa_first_head", Stage.HEADS, "All query heads use key/value head 0, as in multi-query attention.",
          _GROUPED, staged(**_group_both(lambda array, H: _first(array, H) if array.shape[1] < H
                                       else sound.group(array, H)))),
    Fault("gqa_shifted_groups", Stage.HEADS, "The groups of grouped heads begin one head off.",
          _GROUPED, staged(**_group_both(_shifted_groups))),
    Fault("gqa_repeated_in_time", Stage.HEADS, "repeat_kv is called before the transpose: it repeats along time.",
          "Hkv < H, S > 1", staged(**_group_both(_repeated_in_time)),
          link="https://github.com/datawhalechina/tiny-universe/issues/21"),
    Fault("gqa_repeated_over_batch", Stage.HEADS, "Batch and heads are folded before the heads are repeated.",
          "Hkv < H with B > 1 or Hkv > 1", staged(**_group_both(_repeated_over_batch))),
    Fault("gqa_group_of_two", Stage.HEADS, "The group size of the one model at hand is built in.",
          "1 < Hkv < H with H / Hkv ≠ 2", staged(**_group_both(_two_per_group))),
    Fault("heads_next_key_and_value", Stage.HEADS, "Each head uses the keys and values of the next head.", "Hkv > 1",
          staged(**_group_both(lambda array, H: sound.group(np.roll(array, -1, axis=1), H)))),
    Fault("heads_first_key", Stage.HEADS, "All heads use the keys of head 0.", "Hkv > 1", staged(group_key=_first)),
    Fault("heads_first_value", Stage.HEADS, "All heads use the values of head 0.", "Hkv > 1",
          staged(group_value=_first)),
    Fault("heads_key_not_transposed", Stage.HEADS, "Keys are reshaped to heads without the transpose.",
          "Hkv > 1 and S > 1", staged(group_key=lambda array, H: sound.group(_mix_heads_and_time(array), H))),
    Fault("heads_value_not_transposed", Stage.HEADS, "Values are reshaped to heads without the transpose.",
          "Hkv > 1 and S > 1", staged(group_value=lambda array, H: sound.group(_mix_heads_and_time(array), H))),
    Fault("heads_output_interleaved", Stage.OUTPUT, "The output's heads and features are interleaved.",
          "H > 1 and Dv > 1", staged(finish=_interleave_heads)),
    Fault("heads_output_not_transposed", Stage.OUTPUT, "Heads are merged by reshape without transposing back.",
          "H > 1 and T > 1", staged(finish=_merged_flat)),
    Fault("heads_output_averaged", Stage.OUTPUT, "Every head returns the mean of the heads.", "H > 1",
          staged(finish=lambda output, _: np.broadcast_to(output.mean(axis=1, keepdims=True), output.shape))),
    Fault("heads_weights_averaged", Stage.WEIGHTS, "Every head applies the weights averaged over the heads.", "H > 1",
          staged(weigh=lambda weights, _: np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape))),
    Fault("heads_last_lost", Stage.OUTPUT, "The last head is left out: the loop over heads ends one early.", "H > 1",
          staged(finish=_last_head_lost)),
    Fault("batch_next_key_and_value", Stage.HEADS, "Each batch entry uses the keys and values of the next one.",
          "B > 1", staged(**_group_both(lambda array, H: sound.group(np.roll(array, -1, axis=0), H)))),
    Fault("batch_first_key_and_value", Stage.HEADS, "All batch entries use the keys and values of the first.", "B > 1",
          staged(**_group_both(lambda array, H: sound.group(np.broadcast_to(array[:1], array.shape), H)))),
    Fault("batch_and_heads_exchanged", Stage.HEADS, "Folded as (B·H), unfolded as (H·B), for keys and values.",
          "B > 1 and H > 1", staged(**_group_both(_batch_for_heads))),
    Fault("keys_serve_as_values", Stage.HEADS, "The value argument is never used: only forward(x, x, x) was tested.",
          "values that differ from the keys, Dv = D", staged(take=_values_with_keys)),
    Fault("queries_serve_as_keys", Stage.HEADS, "The key argument is never used: only forward(x, x, x) was tested.",
          "T = S and Hkv = H, queries that differ from the keys", staged(take=_keys_with_queries)),
)


_ASKED = "return_weights"


def _report_without(**changes: object) -> Callable[[Array, PreparedCall], Array]:
    """A `report` stage: weights (B,H,T,S) computed anew for display, without some keyword."""
    def report(weights: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S) of the call without that keyword."""
        bare = work.but(**changes)
        bare = bare.but(visible=np.broadcast_to(sound.masked(bare) & sound.past(bare), work.shape))
        logits = sound.add_bias(sound.logits(bare, sound.scale(bare)), bare)
        return sound.softmax(sound.hide(logits, bare), bare)
    return report


def _report_transposed(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), turned to (B,H,S,T) and read on as (B,H,T,S)."""
    B, H, T, S = work.shape
    return weights.swapaxes(-1, -2).reshape(B, H, T, S)


def _dropped_out(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) after a dropout of one in ten."""
    kept = np.random.default_rng(0).random(weights.shape) >= 0.1
    return np.where(kept, weights / 0.9, 0).astype(weights.dtype)


def _scores(weights: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with the bias, in place of weights; 0 where hidden."""
    logits = sound.add_bias(sound.logits(work, sound.scale(work)), work)
    return np.where(work.visible, logits, 0).astype(weights.dtype)


def _squeeze_head(call: HandedOver) -> Answer:
    return change_output(attention(call), lambda output: output.squeeze(1) if output.shape[1] == 1 else output)


def _promote_output(call: HandedOver) -> Answer:
    wide = np.dtype(np.float64) if call.query.dtype == np.float32 else np.dtype(np.float32)
    return change_output(attention(call), lambda output: output.astype(wide))


def _merge_output(call: HandedOver) -> Answer:
    B, H, T, Dv = *call.query.shape[:3], call.value.shape[-1]
    return change_output(attention(call), lambda output: output.swapaxes(1, 2).reshape(B, T, H * Dv))


def _one_query_mean(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), the same for all visible keys if T = 1."""
    if work.shape[2] > 1:
        return weights
    return sound.normalise(work.visible.astype(weights.dtype))


def _self_similar(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), made symmetric if T = S."""
    dots = sound.logits(work, factor)
    if work.shape[2] != work.shape[3]:
        return dots
    return np.tril(dots) + np.tril(dots, -1).swapaxes(-1, -2)


def sum_of_heads(weights: Array) -> Array:
    """(B,H,T,S) -> (B,T,S): the sum over heads."""
    return weights.sum(axis=1)


def first_of_heads(weights: Array) -> Array:
    """(B,H,T,S) -> (B,T,S): the weights of head 0."""
    return weights[:, 0]


def largest_of_heads(weights: Array) -> Array:
    """(B,H,T,S) -> (B,T,S): the largest weight among the heads."""
    return weights.max(axis=1)


def averaged_over_batch(weights: Array) -> Array:
    """(B,H,T,S) -> (B,T,S): the mean over heads and batch, the same for each batch entry."""
    return np.broadcast_to(weights.mean(axis=(0, 1)), (weights.shape[0], *weights.shape[2:]))


REPORT_FAULTS = (
    Fault("report_of_first_head", Stage.WEIGHTS, "The weights of head 0 are returned for all.", f"{_ASKED}, H > 1",
          staged(report=lambda weights, _: np.broadcast_to(weights[:, :1], weights.shape))),
    Fault("report_of_first_batch", Stage.WEIGHTS, "The weights of the first sequence are returned for all.",
          f"{_ASKED}, B > 1", staged(report=lambda weights, _: np.broadcast_to(weights[:1], weights.shape))),
    Fault("report_before_mask", Stage.WEIGHTS, "The returned weights are those before the mask.",
          f"{_ASKED} with a mask", staged(report=_report_without(mask=None))),
    Fault("report_before_causal", Stage.WEIGHTS, "The returned weights are those before the causal mask.",
          f"{_ASKED} with causal", staged(report=_report_without(causal=False))),
    Fault("report_without_bias", Stage.WEIGHTS, "The returned weights are computed again, without the bias.",
          f"{_ASKED} with a bias", staged(report=_report_without(bias=None))),
    Fault("report_transposed", Stage.WEIGHTS, "The returned weights are transposed: rows and columns swap.",
          f"{_ASKED}, T > 1 and S > 1", staged(report=_report_transposed)),
    Fault("report_averaged", Stage.WEIGHTS, "The returned weights are the mean over heads, while per-head is expected.",
          f"{_ASKED}, H > 1",
          staged(report=lambda weights, _: np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape))),
    Fault("report_after_dropout", Stage.WEIGHTS,
          "The returned weights went through dropout.", _ASKED, staged(report=_dropped_out)),
    Fault("report_of_logarithms", Stage.WEIGHTS, "The logarithms of the weights are returned.", _ASKED,
          staged(report=lambda weights, work: np.log(weights + np.where(work.visible, 0, 1e-9)).astype(weights.dtype))),
    Fault("report_of_logits", Stage.WEIGHTS, "The logits are returned, as `scores`.", _ASKED, staged(report=_scores)),
    Fault("report_missing", Stage.WEIGHTS, "return_weights is accepted and ignored.", _ASKED,
          around(lambda call: attention(call.but(return_weights=False)))),
    Fault("output_head_squeezed", Stage.OUTPUT, "squeeze() without an axis: a head axis of 1 disappears.", "H = 1",
          around(_squeeze_head)),
    Fault("output_time_first", Stage.OUTPUT, "The output is (B,T,H,Dv), as in another library.", "H > 1 or T > 1",
          around(lambda call: change_output(attention(call), lambda output: output.swapaxes(1, 2)))),
    Fault("output_merged", Stage.OUTPUT, "The output is (B,T,H·Dv), ready for the projection.",
          "any input", around(_merge_output)),
    Fault("output_promoted", Stage.OUTPUT, "The output has another dtype than the inputs.",
          "any input", around(_promote_output)),
    Fault("one_key_always_visible", Stage.WEIGHTS, "The mask is ignored where S = 1: the value is returned.",
          "S = 1 with a mask that masks it",
          staged(weigh=lambda weights, work: np.ones_like(weights) if work.shape[3] == 1 else weights)),
    Fault("one_query_unscaled", Stage.SCALE, "The scale is left out on the decoding path (T = 1).",
          "T = 1, the default scale, S > 1",
          staged(scale=lambda work: 1.0 if work.shape[2] == 1 and work.scale is None else sound.scale(work))),
    Fault("one_query_uniform", Stage.WEIGHTS, "The decoding path (T = 1) returns the mean of the values.",
          "T = 1, S > 1", staged(weigh=_one_query_mean)),
    Fault("logits_symmetric_when_square", Stage.LOGITS, "T = S is taken for self-attention with tied projections.",
          "T = S > 1, no causal flag", staged(logits=_self_similar)),
)


_IS_WIDE = "the mask is made in float32, which is no narrower"
_IS_FLOAT32 = "everything is computed in float32 already"


def _causal_with_mask_only(call: HandedOver) -> Answer:
    if call.causal and call.mask is None:
        raise ValueError("use_causal_mask needs a mask to combine with")
    return attention(call)


def _full_mask_only(call: HandedOver) -> Answer:
    full = (*call.query.shape[:3], call.key.shape[2])
    if call.mask is not None and call.mask.shape != full:
        raise ValueError(f"mask layout {call.mask.shape} is not {full}")
    return attention(call)


def _mask_in_float32(call: HandedOver) -> Answer:
    if call.mask is not None and call.query.dtype.itemsize == np.dtype(np.float16).itemsize:
        raise TypeError(f"cannot add float32 to {call.query.dtype}")
    return attention(call)


def _narrow_to_float32(call: HandedOver) -> Answer:
    """Float64 is computed in float32; the answer says float64."""
    io = call.query.dtype
    if io != np.float64:
        return attention(call)
    query, key, value = (array.astype(np.float32) for array in (call.query, call.key, call.value))
    bias = None if call.bias is None else call.bias.astype(np.float32)
    answer = attention(call.but(query=query, key=key, value=value, bias=bias))
    return (answer[0].astype(io), answer[1].astype(io)) if isinstance(answer, tuple) else answer.astype(io)


PATH_FAULTS = (
    Fault("causal_needs_mask", Stage.CAUSAL, "The causal mask is combined with the caller's mask, which may be absent.",
          "causal without a mask", around(_causal_with_mask_only)),
    Fault("mask_not_broadcast", Stage.MASK,
          "The mask is passed on without broadcasting to a kernel that needs its full shape.",
          "a mask with an axis of length 1", around(_full_mask_only),
          link="https://github.com/jax-ml/jax/issues/28974"),
    Fault("mask_in_float32", Stage.MASK, "The mask is cast to the default dtype, not to that of the scores.",
          "a mask in float16 or bfloat16", around(_mask_in_float32),
          equivalents={DType.FLOAT32: _IS_WIDE, DType.FLOAT64: _IS_WIDE}),
    Fault("float64_narrowed", Stage.PRECISION, "float64 is not enabled, so all of it is computed in float32.",
          "float64", around(_narrow_to_float32),
          equivalents=dict.fromkeys((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), _IS_FLOAT32)),
)


SWITCH_FAULTS: tuple[Fault, ...] = (
    Fault("switch_mask_dropped", Stage.MASK, "The fused path never looks at the mask; the plain one does.",
          "any mask with a masked key", staged(masked=lambda work: np.ones(work.shape, bool)), other_path=staged()),
    Fault("switch_causal_dropped", Stage.CAUSAL,
          "The causal flag is dropped on the path that keeps scores for the backward pass.", "causal with S > 1",
          staged(past=lambda work: np.ones(work.shape[2:], bool)), other_path=staged()),
    Fault("switch_scale_left_out", Stage.SCALE, "The fused kernel scales by itself, the plain path not at all.",
          "any scale other than 1", staged(scale=lambda _: 1.0), other_path=staged()),
)
