"""Causal masks that are off, misaligned, or dropped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array


def _where_causal(make: Callable[[int, int], Array]) -> Callable[[PreparedCall], Array]:
    """A `past` stage with another triangle (T,S)."""
    return lambda work: make(*work.shape[2:]) if work.causal else sound.past(work)


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> Callable[[PreparedCall], Array]:
    """A `past` stage, (T,S), that forgets the flag on one path."""
    return lambda work: np.ones(work.shape[2:], bool) if condition(work) else sound.past(work)


def _in_steps(T: int, S: int, step: int) -> Array:
    """(T,S): query i sees all keys up to the end of its group of `step`."""
    return np.arange(S) // step <= np.arange(T)[:, None] // step


def _square_then_open(T: int, S: int) -> Array:
    """(T,S): the triangle, and every key beyond T open."""
    return sound.triangle(T, S) | (np.arange(S) >= T)


def _only(axis: int) -> Callable[[PreparedCall], Array]:
    """The triangle for the first entry of an axis only; (B,H,T,S)."""

    def past(work: PreparedCall) -> Array:
        """(B,H,T,S): the triangle at the first entry of the axis, everything at the others."""
        everything = np.ones(work.shape, bool)
        np.moveaxis(everything, axis, 0)[0] &= sound.past(work)
        return everything

    return past


def _window(T: int, S: int, width: int = 32) -> Array:
    """(T,S): query i sees itself and the width - 1 keys before it."""
    return sound.triangle(T, S) & ~sound.triangle(T, S, -width)


def _after_softmax(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) with later keys cut, so that rows no longer sum to 1."""
    return weights * sound.past(work)


def _zero_times_infinity(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) to which 0 · -inf, which is NaN, is added wherever a key may be seen."""
    hidden = sound.hide(logits, work)
    return hidden + (1 - sound.past(work)) * np.float32(-np.inf) if work.causal else hidden


def _unless_all_true(work: PreparedCall) -> Array:
    """What the causal flag allows, (T,S): everything where a mask is given and hides nothing."""
    return sound.past(work) if work.mask is None or not work.mask.all() else np.ones(work.shape[2:], bool)


OFF_BY_ONE = _where_causal(lambda T, S: sound.triangle(T, S, 1))

FAULTS = (
    Fault("causal_ignored", Stage.CAUSAL, "The causal flag is accepted and never used.", "causal with S > 1",
          staged(past=lambda work: np.ones(work.shape[2:], bool)), link="https://github.com/jax-ml/jax/issues/19237"),
    Fault("causal_off_by_one", Stage.CAUSAL, "`>` for `>=`: each query sees one later key.", "causal with S > 1",
          staged(past=OFF_BY_ONE),
          link="https://github.com/flashinfer-ai/flashinfer/pull/348"),
    Fault("causal_strict", Stage.CAUSAL, "The diagonal is masked as well, so that a query does not see itself.",
          "causal",
          staged(past=_where_causal(lambda T, S: sound.triangle(T, S, -1)))),
    Fault("causal_bottom_right", Stage.CAUSAL, "The causal mask is aligned bottom-right, while top-left is expected.",
          "causal with T ≠ S", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, S - T))),
          link="https://github.com/openvinotoolkit/openvino/pull/36680"),
    Fault("causal_reversed", Stage.CAUSAL,
          "The causal mask is turned round: queries see their own and later keys (triu).",
          "causal with S > 1 or T > 1",
          staged(past=_where_causal(lambda T, S: ~sound.triangle(T, S, -1)))),
    Fault("causal_blocks_of_16", Stage.CAUSAL,
          "The causal mask is applied to whole blocks, and not inside the diagonal block.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 16)))),
    Fault("causal_four_rows", Stage.CAUSAL, "The causal bound is computed once for four query rows together.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 4))),
          link="https://github.com/pytorch/pytorch/issues/195910"),
    Fault("causal_square_then_open", Stage.CAUSAL, "The causal mask has the shape (T,T), so keys beyond T are visible.",
          "causal with S > T", staged(past=_where_causal(_square_then_open))),
    Fault("causal_window", Stage.CAUSAL, "A sliding window of 32 is left switched on.", "causal with T > 32",
          staged(past=_where_causal(_window))),
    Fault("causal_first_batch_only", Stage.CAUSAL, "The causal mask is applied to the first batch entry only.",
          "causal with B > 1 and S > 1", staged(past=_only(0))),
    Fault("causal_first_head_only", Stage.CAUSAL, "The causal mask is applied to the first head only.",
          "causal with H > 1 and S > 1",
          staged(past=_only(1))),
    Fault("causal_dropped_with_mask", Stage.CAUSAL, "A mask replaces the causal one instead of joining it.",
          "causal together with a mask", staged(past=_dropped_if(lambda work: work.mask is not None)),
          link="https://github.com/keras-team/keras/pull/23040"),
    Fault("causal_dropped_with_bias", Stage.CAUSAL, "A bias replaces the causal mask: both share one argument.",
          "causal together with a bias", staged(past=_dropped_if(lambda work: work.bias is not None))),
    Fault("causal_dropped_with_weights", Stage.CAUSAL, "The path that returns weights drops the causal mask.",
          "causal together with return_weights", staged(past=_dropped_if(lambda work: work.return_weights)),
          link="https://github.com/keras-team/keras/issues/23038"),
    Fault("causal_dropped_when_square", Stage.CAUSAL, "The causal flag is dropped where T = S.",
          "causal with T = S > 1", staged(past=_dropped_if(lambda work: work.shape[2] == work.shape[3])),
          link="https://github.com/Mikyx-1/TinyLLM/pull/18"),
    Fault("causal_dropped_when_not_square", Stage.CAUSAL,
          "The causal flag is dropped where T and S differ, as if that were cross-attention.",
          "causal with T ≠ S and S > 1", staged(past=_dropped_if(lambda work: work.shape[2] != work.shape[3]))),
    Fault("causal_dropped_for_one_query", Stage.CAUSAL,
          "The causal flag is dropped where T = 1, as if that were always decoding.",
          "causal with T = 1 and S > 1", staged(past=_dropped_if(lambda work: work.shape[2] == 1)),
          link="https://github.com/microsoft/onnxruntime/issues/29020"),
    Fault("causal_dropped_with_all_true_mask", Stage.CAUSAL,
          "A mask that is all True is skipped, and the causal mask with it.",
          "causal together with a mask that is all True", staged(past=_unless_all_true)),
    Fault("causal_always", Stage.CAUSAL, "It is causal even without the causal flag.",
          "no causal flag, S > 1", staged(past=lambda work: sound.triangle(*work.shape[2:])),
          link="https://github.com/huggingface/transformers/pull/42820"),
    Fault("causal_after_softmax", Stage.CAUSAL, "Later keys are cut from the weights, which are not normalised again.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool), weigh=_after_softmax)),
    Fault("causal_zero_times_infinity", Stage.CAUSAL,
          "The causal mask is added as (1 - triangle) · -inf, and 0 · inf is NaN.",
          "causal", staged(hide=_zero_times_infinity)),
)
