"""Heads and batch entries mixed up; grouped heads in the wrong order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import HandedOver, PreparedCall
from attnspec.problems.problem import Array

_GROUPED = "1 < Hkv < H"


def _grouped(group: Callable[[Array, int], Array]) -> dict[str, Callable[[Array, int], Array]]:
    """One way to group, (B,Hkv,S,·) -> (B,H,S,·), for keys and values alike."""
    return {"group_key": group, "group_value": group}


def tiled(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): query head h uses h % Hkv."""
    return np.tile(array, (1, H // array.shape[1], 1, 1))


def _first(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): every query head uses head 0."""
    return sound.group(array[:, :1], H)


def _next(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): each group uses the key/value head of the next."""
    return sound.group(np.roll(array, -1, axis=1), H)


def _shifted_groups(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): head h uses (h + 1) // (H / Hkv), the last one clamped."""
    Hkv = array.shape[1]
    return array[:, np.minimum((np.arange(H) + 1) // (H // Hkv), Hkv - 1)] if Hkv < H else array


def _repeated_in_time(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): repeat along the time axis, then reshape to H heads."""
    B, Hkv, S, width = array.shape
    return np.repeat(array, H // Hkv, axis=2).reshape(B, Hkv, H // Hkv, S, width).reshape(B, H, S, width)


def _repeated_over_batch(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): B·Hkv heads are tiled as one axis, so groups run across the batch."""
    B, Hkv, S, width = array.shape
    return np.tile(array.reshape(B * Hkv, S, width), (H // Hkv, 1, 1)).reshape(B, H, S, width)


def _two_per_group(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): always two query heads a group, whatever H / Hkv is."""
    return array[:, np.arange(H) // 2 % array.shape[1]] if array.shape[1] < H else array


def _reshaped(array: Array) -> Array:
    """(B,H,S,·) read as (B,S,H,·) and transposed: heads and time mixed."""
    B, H, S, width = array.shape
    return array.reshape(B, S, H, width).swapaxes(1, 2)


def _next_batch(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·) of the next batch entry."""
    return sound.group(np.roll(array, -1, axis=0), H)


def _first_batch(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): the first batch entry serves all."""
    return sound.group(np.broadcast_to(array[:1], array.shape), H)


def _batch_for_heads(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·), folded as (B·H) and unfolded as (H·B)."""
    grouped = sound.group(array, H)
    B, _, S, width = grouped.shape
    return grouped.reshape(H, B, S, width).swapaxes(0, 1)


def _values_with_keys(call: HandedOver) -> PreparedCall:
    """The keys serve for values where they have the same shape."""
    return sound.take(call.but(value=call.key) if call.key.shape == call.value.shape else call)


def _keys_with_queries(call: HandedOver) -> PreparedCall:
    """The queries serve for keys where they have the same shape."""
    return sound.take(call.but(key=call.query) if call.key.shape == call.query.shape else call)


def _interleaved(output: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The output (B,H,T,Dv), heads and features interleaved: (H,Dv) is filled as (Dv,H)."""
    B, H, T, Dv = output.shape
    return output.transpose(0, 2, 3, 1).reshape(B, T, H, Dv).swapaxes(1, 2)


def _merged_flat(output: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The output's memory (B,H,T,Dv) read as (B,T,H,Dv), then turned back to heads first."""
    B, H, T, Dv = output.shape
    return output.reshape(B, T, H, Dv).swapaxes(1, 2)


def _averaged(output: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The output (B,H,T,Dv), every head the mean of the heads."""
    return np.broadcast_to(output.mean(axis=1, keepdims=True), output.shape)


def _averaged_weights(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S), the mean over heads applied in each of them."""
    return np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape)


def _last_head_lost(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with zeros in the last of several heads."""
    H = work.shape[1]
    return np.where((np.arange(H) == H - 1)[:, None, None] & (H > 1), 0, output).astype(output.dtype)


FAULTS = (
    Fault("gqa_tiled", Stage.HEADS, "Grouped heads are tiled (h % Hkv), while repeat (h // group) is expected.",
          _GROUPED,
          staged(**_grouped(tiled)), link="https://github.com/microsoft/onnxruntime/pull/26057"),
    Fault("gqa_first_head", Stage.HEADS, "All query heads use key/value head 0, as in multi-query attention.",
          _GROUPED, staged(**_grouped(lambda array, H: _first(array, H) if array.shape[1] < H
                                       else sound.group(array, H)))),
    Fault("gqa_shifted_groups", Stage.HEADS, "The groups of grouped heads begin one head off.", _GROUPED,
          staged(**_grouped(_shifted_groups))),
    Fault("gqa_repeated_in_time", Stage.HEADS, "repeat_kv is called before the transpose: it repeats along time.",
          "Hkv < H, S > 1", staged(**_grouped(_repeated_in_time)),
          link="https://github.com/datawhalechina/tiny-universe/issues/21"),
    Fault("gqa_repeated_over_batch", Stage.HEADS, "Batch and heads are folded before the heads are repeated.",
          "Hkv < H with B > 1 or Hkv > 1", staged(**_grouped(_repeated_over_batch))),
    Fault("gqa_group_of_two", Stage.HEADS, "The group size of the one model at hand is built in.",
          "1 < Hkv < H with H / Hkv ≠ 2", staged(**_grouped(_two_per_group)),
          link="https://github.com/ikawrakow/ik_llama.cpp/pull/1521"),
    Fault("heads_next_key_and_value", Stage.HEADS, "Each head uses the keys and values of the next head.", "Hkv > 1",
          staged(**_grouped(_next))),
    Fault("heads_first_key", Stage.HEADS, "All heads use the keys of head 0.", "Hkv > 1", staged(group_key=_first)),
    Fault("heads_first_value", Stage.HEADS, "All heads use the values of head 0.", "Hkv > 1",
          staged(group_value=_first)),
    Fault("heads_key_not_transposed", Stage.HEADS, "Keys are reshaped to heads without the transpose.",
          "Hkv > 1 and S > 1", staged(group_key=lambda array, H: sound.group(_reshaped(array), H)),
          link="https://github.com/onnx/onnx/issues/7118"),
    Fault("heads_value_not_transposed", Stage.HEADS, "Values are reshaped to heads without the transpose.",
          "Hkv > 1 and S > 1", staged(group_value=lambda array, H: sound.group(_reshaped(array), H)),
          link="https://github.com/reczoo/FuxiCTR/issues/30"),
    Fault("heads_output_interleaved", Stage.OUTPUT, "The output's heads and features are interleaved.",
          "H > 1 and Dv > 1", staged(finish=_interleaved)),
    Fault("heads_output_not_transposed", Stage.OUTPUT, "Heads are merged by reshape without transposing back.",
          "H > 1 and T > 1", staged(finish=_merged_flat),
          link="https://github.com/jsbaan/transformer-from-scratch/pull/6"),
    Fault("heads_output_averaged", Stage.OUTPUT, "Every head returns the mean of the heads.", "H > 1",
          staged(finish=_averaged)),
    Fault("heads_weights_averaged", Stage.WEIGHTS, "Every head applies the weights averaged over the heads.", "H > 1",
          staged(weigh=_averaged_weights)),
    Fault("heads_last_lost", Stage.OUTPUT, "The last head is left out: the loop over heads ends one early.", "H > 1",
          staged(finish=_last_head_lost)),
    Fault("batch_next_key_and_value", Stage.HEADS, "Each batch entry uses the keys and values of the next one.",
          "B > 1",
          staged(**_grouped(_next_batch)), link="https://github.com/Dao-AILab/flash-attention/issues/772"),
    Fault("batch_first_key_and_value", Stage.HEADS, "All batch entries use the keys and values of the first.", "B > 1",
          staged(**_grouped(_first_batch)), link="https://github.com/ggml-org/llama.cpp/issues/7903"),
    Fault("batch_and_heads_exchanged", Stage.HEADS, "Folded as (B·H), unfolded as (H·B), for keys and values.",
          "B > 1 and H > 1", staged(**_grouped(_batch_for_heads)),
          link="https://github.com/huggingface/diffusers/pull/3214"),
    Fault("keys_serve_as_values", Stage.HEADS, "The value argument is never used: only forward(x, x, x) was tested.",
          "values that differ from the keys, Dv = D", staged(take=_values_with_keys)),
    Fault("queries_serve_as_keys", Stage.HEADS, "The key argument is never used: only forward(x, x, x) was tested.",
          "T = S and Hkv = H, queries that differ from the keys", staged(take=_keys_with_queries)),
)
