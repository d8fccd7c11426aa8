"""Biases that are lost, taken from elsewhere, or added at the wrong place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import BFLOAT16, FLOAT16, through
from attnspec.faults.staged import staged
from attnspec.faults.work import HandedOver, PreparedCall
from attnspec.problems.problem import Array


def _changed(change: Callable[[Array, PreparedCall], Array]) -> Callable[[Array, PreparedCall], Array]:
    """An `add_bias` stage that adds another bias (B,H,T,S) where there is one."""
    return lambda logits, work: logits if work.bias is None else logits + change(work.bias, work)


def _dropped_if(condition: Callable[[HandedOver], bool]) -> Callable[[HandedOver], PreparedCall]:
    return lambda call: sound.take(call.but(bias=None) if condition(call) else call)


def _first_for_all(array: Array, axis: int) -> Array:
    """The bias (B,H,T,S) with the first entry of an axis in the place of all others."""
    return np.broadcast_to(np.take(array, [0], axis=axis), array.shape)


def _before_scale(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias times the scale, as if it had been added to the raw dot products."""
    return logits if work.bias is None else logits + work.bias * logits.dtype.type(sound.scale(work))


def _transposed(bias: Array, work: PreparedCall) -> Array:
    """The bias (B,H,T,S) read as (B,H,S,T) and turned: its transpose where T = S."""
    B, H, T, S = work.shape
    return bias.reshape(B, H, S, T).swapaxes(-1, -2)


def _to_weights(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) with the bias added where a key is visible."""
    return weights if work.bias is None else weights + np.where(work.visible, work.bias, 0)


def _none(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Logits (B,H,T,S) without the bias, which is added to the weights instead."""
    return logits


def _multiplied(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) times the bias, as by a gate; hidden ones are left alone."""
    return logits if work.bias is None else logits * np.where(work.visible, work.bias, 1)


def _last_key_lost(bias: Array, work: PreparedCall) -> Array:
    """The bias (B,H,T,S) with 0 for the last key."""
    return np.where(np.arange(work.shape[3]) == work.shape[3] - 1, 0, bias).astype(bias.dtype)


def _as_mask(call: HandedOver) -> PreparedCall:
    """Entries other than 0 are taken for True."""
    if call.bias is None:
        return sound.take(call)
    allowed = np.asarray(call.bias != 0)
    return sound.take(call.but(bias=None, mask=allowed if call.mask is None else allowed & call.mask))


def _clipped(call: HandedOver) -> PreparedCall:
    """Between -30 and 30, `to keep gradients finite`; -inf too."""
    bias = None if call.bias is None else np.clip(np.asarray(call.bias, np.float64), -30, 30).astype(call.bias.dtype)
    return sound.take(call.but(bias=bias))


FAULTS = (
    Fault("bias_ignored", Stage.BIAS, "The bias is ignored: the fused path takes none.", "a bias",
          staged(take=_dropped_if(lambda _: True)), link="https://github.com/lucidrains/x-transformers/issues/298"),
    Fault("bias_before_scale", Stage.BIAS, "The bias is added to the raw dot products and scaled with them.",
          "a bias and a scale other than 1", staged(add_bias=_before_scale)),
    Fault("bias_doubled", Stage.BIAS, "The bias is added twice, by the caller and by the kernel.", "a bias",
          staged(add_bias=_changed(lambda bias, _: bias + bias))),
    Fault("bias_subtracted", Stage.BIAS, "The bias is subtracted, as if it were a penalty on distance.", "a bias",
          staged(add_bias=_changed(lambda bias, _: -np.where(np.isneginf(bias), 0, bias)))),
    Fault("bias_multiplied", Stage.BIAS, "The logits are multiplied by the bias, as by a gate.", "a bias",
          staged(add_bias=_multiplied)),
    Fault("bias_after_softmax", Stage.BIAS, "The bias is added to the weights.", "a bias",
          staged(add_bias=_none, weigh=_to_weights)),
    Fault("bias_transposed", Stage.BIAS, "Rows and columns of the bias are exchanged.", "a bias that is not symmetric",
          staged(add_bias=_changed(_transposed))),
    Fault("bias_of_first_head", Stage.BIAS, "The head axis of the bias is dropped.", "a bias with H > 1",
          staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 1)))),
    Fault("bias_of_first_batch", Stage.BIAS, "The bias of the first batch entry is used for the whole batch.",
          "a bias with B > 1",
          staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 0)))),
    Fault("bias_of_first_row", Stage.BIAS, "The first row of the bias is used for all queries.", "a bias with T > 1",
          staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 2)))),
    Fault("bias_averaged_over_heads", Stage.BIAS, "Relative positions are shared, so the heads' biases are averaged.",
          "a bias with H > 1",
          staged(add_bias=_changed(lambda bias, _: bias.mean(axis=1, keepdims=True)))),
    Fault("bias_heads_reversed", Stage.BIAS, "The heads use the bias in reverse order.",
          "a bias with H > 1", staged(add_bias=_changed(lambda bias, _: bias[:, ::-1])),
          link="https://github.com/lucidrains/x-transformers/pull/85"),
    Fault("bias_last_key_lost", Stage.BIAS, "The bias table is one column short.", "a bias",
          staged(add_bias=_changed(_last_key_lost))),
    Fault("bias_shifted", Stage.BIAS, "The bias is indexed one column off.", "a bias with S > 1",
          staged(add_bias=_changed(lambda bias, _: np.roll(bias, 1, axis=-1)))),
    Fault("bias_as_mask", Stage.BIAS, "A float mask is cast to boolean, so every key whose bias is not 0 is allowed.",
          "a bias",
          staged(take=_as_mask), link="https://github.com/pytorch/pytorch/issues/147209"),
    Fault("bias_clipped_30", Stage.BIAS, "The bias is clipped to ±30; -inf becomes -30.",
          "a bias beyond ±30, or -inf", staged(take=_clipped)),
    Fault("bias_dropped_with_mask", Stage.BIAS, "The bias is dropped where there is a mask: both share one argument.",
          "a bias together with a mask", staged(take=_dropped_if(lambda call: call.mask is not None))),
    Fault("bias_dropped_with_causal", Stage.BIAS,
          "The bias is dropped where the causal flag is set: that kernel takes none.", "a bias together with causal",
          staged(take=_dropped_if(lambda call: call.causal))),
    Fault("bias_dropped_with_weights", Stage.BIAS, "The path that returns weights forgets the bias.",
          "a bias together with return_weights", staged(take=_dropped_if(lambda call: call.return_weights))),
    Fault("bias_dropped_for_one_query", Stage.BIAS, "The bias is dropped on the decoding path (T = 1).",
          "a bias with T = 1",
          staged(take=_dropped_if(lambda call: call.query.shape[2] == 1))),
    Fault("bias_rounded_to_bfloat16", Stage.BIAS, "The bias is stored in bfloat16.",
          "a bias that bfloat16 cannot hold",
          staged(add_bias=_changed(lambda bias, _: through(bias, BFLOAT16))),
          equivalents={DType.BFLOAT16: "a bias in bfloat16 is in bfloat16 already"}),
    Fault("bias_sum_in_float16", Stage.BIAS, "Logits and bias are added in float16.",
          "a bias, and logits that float16 cannot hold with it",
          staged(add_bias=lambda logits, work: through(sound.add_bias(logits, work), FLOAT16)
                 if work.bias is not None else logits)),
)
