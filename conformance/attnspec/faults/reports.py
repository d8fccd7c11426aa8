"""Wrong returned weights, wrong shapes and dtypes of what is returned, and special-case paths."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import around, attention, staged
from attnspec.faults.work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

_ASKED = "return_weights"


def _report_without(**changes: object) -> Callable[[Array, PreparedCall], Array]:
    """A `report` stage: weights (B,H,T,S) computed a second time for display, with something forgotten."""
    def report(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        """Weights (B,H,T,S) of the call without it; those in effect are not looked at."""
        bare = work.but(**changes)
        seen = bare.but(visible=np.broadcast_to(sound.masked(bare) & sound.past(bare), work.shape))
        return sound.softmax(sound.hide(sound.add_bias(sound.logits(bare, sound.scale(bare)), bare), seen), seen)
    return report


def _transposed(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) turned to (B,H,S,T), whose memory is read as (B,H,T,S)."""
    B, H, T, S = work.shape
    return weights.swapaxes(-1, -2).reshape(B, H, T, S)


def _dropped_out(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S) after a dropout of one in ten."""
    kept = np.random.default_rng(0).random(weights.shape) >= 0.1
    return np.where(kept, weights / 0.9, 0).astype(weights.dtype)


def _log(weights: Array, work: PreparedCall) -> Array:
    """Logarithms of the weights (B,H,T,S); a hidden key's is that of 1e-9."""
    return np.log(weights + np.where(work.visible, 0, 1e-9)).astype(weights.dtype)


def _scores(weights: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with the bias in the place of weights, 0 where hidden."""
    return np.where(work.visible, sound.add_bias(sound.logits(work, sound.scale(work)), work), 0).astype(weights.dtype)


def _with_output(answer: Answer, change: Callable[[Array], Array]) -> Answer:
    """The answer with its output (B,H,T,Dv) changed; weights stay as they are."""
    return (change(answer[0]), answer[1]) if isinstance(answer, tuple) else change(answer)


def _squeezed(call: HandedOver) -> Answer:
    return _with_output(attention(call), lambda output: output.squeeze(1) if output.shape[1] == 1 else output)


def _time_first(call: HandedOver) -> Answer:
    return _with_output(attention(call), lambda output: output.swapaxes(1, 2))


def _promoted(call: HandedOver) -> Answer:
    wide = np.dtype(np.float64) if call.query.dtype == np.float32 else np.dtype(np.float32)
    return _with_output(attention(call), lambda output: output.astype(wide))


def _merged(call: HandedOver) -> Answer:
    B, H, T, Dv = *call.query.shape[:3], call.value.shape[-1]
    return _with_output(attention(call), lambda output: output.swapaxes(1, 2).reshape(B, T, H * Dv))


def _output_alone(call: HandedOver) -> Answer:
    return attention(call.but(return_weights=False))


def _only_key(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); a single key always has weight 1, visible or not."""
    return np.ones_like(weights) if work.shape[3] == 1 else weights


def _one_query_scale(work: PreparedCall) -> float:
    return 1.0 if work.shape[2] == 1 and work.scale is None else sound.scale(work)


def _one_query_mean(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), equal over the visible keys where T = 1."""
    if work.shape[2] > 1:
        return weights
    return sound.normalise(work.visible.astype(weights.dtype))


def _self_similar(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), made symmetric where T = S, to halve the work."""
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


FAULTS = (
    Fault("report_of_first_head", Stage.WEIGHTS, "The weights of head 0 are returned for all.", f"{_ASKED}, H > 1",
          staged(report=lambda weights, _: np.broadcast_to(weights[:, :1], weights.shape))),
    Fault("report_of_first_batch", Stage.WEIGHTS, "The weights of the first sequence are returned for all.",
          f"{_ASKED}, B > 1", staged(report=lambda weights, _: np.broadcast_to(weights[:1], weights.shape))),
    Fault("report_before_mask", Stage.WEIGHTS, "The returned weights are those before the mask.",
          f"{_ASKED} with a mask", staged(report=_report_without(mask=None)),
          link="https://github.com/pytorch/pytorch/issues/118025"),
    Fault("report_before_causal", Stage.WEIGHTS, "The returned weights are those before the causal mask.",
          f"{_ASKED} with causal", staged(report=_report_without(causal=False)),
          link="https://github.com/keras-team/keras/issues/23038"),
    Fault("report_without_bias", Stage.WEIGHTS, "The returned weights are computed again, without the bias.",
          f"{_ASKED} with a bias", staged(report=_report_without(bias=None))),
    Fault("report_transposed", Stage.WEIGHTS, "The returned weights are transposed: rows and columns swap.",
          f"{_ASKED}, T > 1 and S > 1",
          staged(report=_transposed)),
    Fault("report_averaged", Stage.WEIGHTS, "The returned weights are the mean over heads, while per-head is expected.",
          f"{_ASKED}, H > 1",
          staged(report=lambda weights, _: np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape))),
    Fault("report_after_dropout", Stage.WEIGHTS, "The returned weights went through dropout.", _ASKED,
          staged(report=_dropped_out), link="https://github.com/pytorch/pytorch/issues/27968"),
    Fault("report_of_logarithms", Stage.WEIGHTS, "The logarithms of the weights are returned.", _ASKED,
          staged(report=_log)),
    Fault("report_of_logits", Stage.WEIGHTS, "The logits are returned, as `scores`.", _ASKED, staged(report=_scores)),
    Fault("report_missing", Stage.WEIGHTS, "return_weights is accepted and ignored.", _ASKED, around(_output_alone)),
    Fault("output_head_squeezed", Stage.OUTPUT, "squeeze() without an axis: a head axis of 1 disappears.", "H = 1",
          around(_squeezed), link="https://github.com/pytorch/pytorch/issues/130196"),
    Fault("output_time_first", Stage.OUTPUT, "The output is (B,T,H,Dv), as in another library.", "H > 1 or T > 1",
          around(_time_first), link="https://github.com/jax-ml/jax/issues/35916"),
    Fault("output_merged", Stage.OUTPUT, "The output is (B,T,H·Dv), ready for the projection.", "any input",
          around(_merged)),
    Fault("output_promoted", Stage.OUTPUT, "The output has another dtype than the inputs.", "any input",
          around(_promoted)),
    Fault("one_key_always_visible", Stage.WEIGHTS, "The mask is ignored where S = 1: the value is returned.",
          "S = 1 with a mask that masks it", staged(weigh=_only_key)),
    Fault("one_query_unscaled", Stage.SCALE, "The scale is left out on the decoding path (T = 1).",
          "T = 1, the default scale, S > 1", staged(scale=_one_query_scale)),
    Fault("one_query_uniform", Stage.WEIGHTS, "The decoding path (T = 1) returns the mean of the values.",
          "T = 1, S > 1",
          staged(weigh=_one_query_mean)),
    Fault("logits_symmetric_when_square", Stage.LOGITS, "T = S is taken for self-attention with tied projections.",
          "T = S > 1, no causal flag", staged(logits=_self_similar)),
)
