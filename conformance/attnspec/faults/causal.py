"""Causal masks that are off, misaligned, or dropped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Work, staged
from attnspec.problems.problem import Array


def _where_causal(make: Callable[[int, int], Array]) -> Callable[[Work], Array]:
    """A `past` stage with another triangle (T,S)."""
    return lambda work: make(*work.shape[2:]) if work.causal else sound.past(work)


def _dropped_if(condition: Callable[[Work], bool]) -> Callable[[Work], Array]:
    """A `past` stage, (T,S), that forgets the flag on one path."""
    return lambda work: np.ones(work.shape[2:], bool) if condition(work) else sound.past(work)


def _in_steps(T: int, S: int, step: int) -> Array:
    """(T,S): query i sees all keys up to the end of its group of `step`."""
    return np.arange(S) // step <= np.arange(T)[:, None] // step


def _square_then_open(T: int, S: int) -> Array:
    """(T,S): the triangle, and every key beyond T open."""
    return sound.triangle(T, S) | (np.arange(S) >= T)


def _only(axis: int) -> Callable[[Work], Array]:
    """The triangle for the first entry of an axis only; (B,H,T,S)."""

    def past(work: Work) -> Array:
        """(B,H,T,S): the triangle at the first entry of the axis, everything at the others."""
        everything = np.ones(work.shape, bool)
        np.moveaxis(everything, axis, 0)[0] &= sound.past(work)
        return everything

    return past


def _window(T: int, S: int, width: int = 32) -> Array:
    """(T,S): query i sees itself and the width - 1 keys before it."""
    return sound.triangle(T, S) & ~sound.triangle(T, S, -width)


def _after_softmax(weights: Array, work: Work) -> Array:
    """Weights (B,H,T,S) with later keys cut, so that rows no longer sum to 1."""
    return weights * sound.past(work)


def _zero_times_infinity(logits: Array, work: Work) -> Array:
    """Logits (B,H,T,S) to which 0 · -inf, which is NaN, is added wherever a key may be seen."""
    hidden = sound.hide(logits, work)
    return hidden + (1 - sound.past(work)) * np.float32(-np.inf) if work.causal else hidden


def _unless_all_true(work: Work) -> Array:
    """What the causal flag allows, (T,S): everything where a mask is given and hides nothing."""
    return sound.past(work) if work.mask is None or not work.mask.all() else np.ones(work.shape[2:], bool)


OFF_BY_ONE = _where_causal(lambda T, S: sound.triangle(T, S, 1))

FAULTS = (
    Fault("causal_ignored", Stage.CAUSAL, "The flag is accepted and never used.", "causal with S > 1",
          staged(past=lambda work: np.ones(work.shape[2:], bool)), link="https://github.com/jax-ml/jax/issues/19237"),
    Fault("causal_off_by_one", Stage.CAUSAL, "`>` for `>=`: each query sees one later key.", "causal with S > 1",
          staged(past=OFF_BY_ONE),
          link="https://github.com/flashinfer-ai/flashinfer/pull/348"),
    Fault("causal_strict", Stage.CAUSAL, "The diagonal is hidden too: a query does not see itself.", "causal",
          staged(past=_where_causal(lambda T, S: sound.triangle(T, S, -1)))),
    Fault("causal_bottom_right", Stage.CAUSAL, "Aligned to the last key, while top-left is declared.",
          "causal with T ≠ S", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, S - T))),
          link="https://github.com/openvinotoolkit/openvino/pull/36680"),
    Fault("causal_reversed", Stage.CAUSAL, "triu for tril: queries see the future alone.", "causal with S > 1",
          staged(past=_where_causal(lambda T, S: ~sound.triangle(T, S, -1)))),
    Fault("causal_blocks_of_16", Stage.CAUSAL, "Whole blocks are kept or skipped; the diagonal block is not masked.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 16)))),
    Fault("causal_four_rows", Stage.CAUSAL, "The bound is evaluated once for each group of four query rows.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 4))),
          link="https://github.com/pytorch/pytorch/issues/195910"),
    Fault("causal_square_then_open", Stage.CAUSAL, "A (T,T) triangle is made, and keys beyond T are left open.",
          "causal with S > T", staged(past=_where_causal(_square_then_open))),
    Fault("causal_window", Stage.CAUSAL, "A sliding window of 32 is left switched on.", "causal with S > 32",
          staged(past=_where_causal(_window))),
    Fault("causal_first_batch_only", Stage.CAUSAL, "The triangle is written into the first batch entry.",
          "causal with B > 1", staged(past=_only(0))),
    Fault("causal_first_head_only", Stage.CAUSAL, "The triangle is written into the first head.", "causal with H > 1",
          staged(past=_only(1))),
    Fault("causal_dropped_with_mask", Stage.CAUSAL, "A mask replaces the causal one instead of joining it.",
          "causal together with a mask", staged(past=_dropped_if(lambda work: work.mask is not None)),
          link="https://github.com/keras-team/keras/pull/23040"),
    Fault("causal_dropped_with_bias", Stage.CAUSAL, "A bias takes the slot of the causal mask.",
          "causal together with a bias", staged(past=_dropped_if(lambda work: work.bias is not None))),
    Fault("causal_dropped_with_weights", Stage.CAUSAL, "The manual path for returned weights expects a fused mask.",
          "causal together with return_weights", staged(past=_dropped_if(lambda work: work.return_weights)),
          link="https://github.com/keras-team/keras/issues/23038"),
    Fault("causal_dropped_when_square", Stage.CAUSAL, "The flag is honoured in the cached path (T < S) only.",
          "causal with T = S > 1", staged(past=_dropped_if(lambda work: work.shape[2] == work.shape[3])),
          link="https://github.com/Mikyx-1/TinyLLM/pull/18"),
    Fault("causal_dropped_when_not_square", Stage.CAUSAL, "Cross shapes are taken for cross-attention.",
          "causal with T ≠ S", staged(past=_dropped_if(lambda work: work.shape[2] != work.shape[3]))),
    Fault("causal_dropped_for_one_query", Stage.CAUSAL, "One query row is taken for decoding, where all is past.",
          "causal with T = 1 and S > 1", staged(past=_dropped_if(lambda work: work.shape[2] == 1)),
          link="https://github.com/microsoft/onnxruntime/issues/29020"),
    Fault("causal_dropped_with_all_true_mask", Stage.CAUSAL, "An all-true mask is skipped, and the triangle with it.",
          "causal together with a mask that hides nothing", staged(past=_unless_all_true)),
    Fault("causal_always", Stage.CAUSAL, "A decoder's class serves an encoder; the flag's default is not changed.",
          "no causal flag, S > 1", staged(past=lambda work: sound.triangle(*work.shape[2:])),
          link="https://github.com/huggingface/transformers/pull/42820"),
    Fault("causal_after_softmax", Stage.CAUSAL, "Later keys are cut from the weights, which are not normalised again.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool), weigh=_after_softmax)),
    Fault("causal_zero_times_infinity", Stage.CAUSAL, "(1 - triangle) · -inf is added: 0 · inf is not a number.",
          "causal", staged(hide=_zero_times_infinity)),
)
