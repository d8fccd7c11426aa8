"""Ends that are lost: the last key, the odd feature, the row that nobody wrote; and outputs that are simply wrong."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.drift import smoothed
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Call, Work, staged
from attnspec.problems.problem import Array


def _without_key(position: int, count: int = 1) -> dict[str, object]:
    """Hide one key (counted from either end) wherever there are more than `count`."""
    def hide(logits: Array, work: Work) -> Array:
        S = work.shape[3]
        is_lost = (np.arange(S) == position % S) & (count < S)
        return np.where(is_lost, -np.inf, sound.hide(logits, work)).astype(logits.dtype)
    return {"hide": hide}


def _even_width(work: Work, factor: float) -> Array:
    """Features are read in pairs: the odd last one is lost."""
    D = work.query.shape[-1] // 2 * 2
    return sound.logits(work.but(query=work.query[..., :D], key=work.key[..., :D]), factor)


def _eights(work: Work, factor: float) -> Array:
    """Features are read in vectors of 8 once there are as many."""
    D = work.query.shape[-1]
    kept = D // 8 * 8 if D > 8 else D
    return sound.logits(work.but(query=work.query[..., :kept], key=work.key[..., :kept]), factor)


def _even_values(output: Array, work: Work) -> Array:  # noqa: ARG001  (the stage's signature)
    """The odd last feature of the output is never written."""
    Dv = output.shape[-1]
    return np.where(np.arange(Dv) < Dv // 2 * 2, output, 0).astype(output.dtype)


def _as_wide_as_queries(output: Array, work: Work) -> Array:
    """Features of the values beyond D are never written."""
    return np.where(np.arange(output.shape[-1]) < work.query.shape[-1], output, 0).astype(output.dtype)


def _rows_written(output: Array, work: Work) -> Array:
    """Rows after the last whole tile of 16 hold what was in the buffer: ones."""
    T = work.shape[2]
    written = T // 16 * 16 if T > 16 else T
    return np.where((np.arange(T) < written)[:, None], output, 1).astype(output.dtype)


def _last_row_from_before(output: Array, work: Work) -> Array:  # noqa: ARG001  (the stage's signature)
    return np.concatenate([output[:, :, :-1], output[:, :, -2:-1]], axis=2) if output.shape[2] > 1 else output


def _first_row_lost(output: Array, work: Work) -> Array:
    return np.where((np.arange(work.shape[2]) == 0)[:, None], 0, output).astype(output.dtype)


def _first_batch_only(output: Array, work: Work) -> Array:
    return np.where((np.arange(work.shape[0]) == 0)[:, None, None, None], output, 0).astype(output.dtype)


def _last_values_swapped(weights: Array, work: Work) -> Array:
    order = np.arange(work.shape[3])
    order[-2:] = order[-2:][::-1]
    return weights @ work.value[:, :, order]


def _rotated(work: Work, factor: float) -> Array:
    """Keys are one position off against their values."""
    return sound.logits(work.but(key=np.roll(work.key, 1, axis=2)), factor)


def _mean_of_values(weights: Array, work: Work) -> Array:
    return np.broadcast_to(work.value.mean(axis=2, keepdims=True), (*weights.shape[:-1], work.value.shape[-1]))


def _uniform(weights: Array, work: Work) -> Array:
    return sound.normalise(work.visible.astype(weights.dtype))


def _residual(call: Call) -> Work:
    """The query is added to the values when shapes agree, for the residual connection's sake."""
    return sound.take(call.but(value=call.value + call.query) if call.value.shape == call.query.shape else call)


def _noise(output: Array, work: Work) -> Array:
    """Noise of relative size 1e-3 whose seed is the content."""
    seed = int(np.ascontiguousarray(work.query).view(np.uint8).sum())
    return output * (1 + 1e-3 * np.random.default_rng(seed).standard_normal(output.shape)).astype(output.dtype)


FAULTS = (
    Fault("key_last_dropped", Stage.TAILS, "range(S - 1).", "S > 1", staged(**_without_key(-1))),
    Fault("key_first_dropped", Stage.TAILS, "The loop starts at 1: the first cache slot is never written.", "S > 1",
          staged(**_without_key(0)), link="https://github.com/TrenTorch/TrenTorch/pull/192"),
    Fault("key_17_dropped", Stage.TAILS, "The first key of the second block is skipped.", "S > 16",
          staged(**_without_key(16, 16))),
    Fault("keys_rotated", Stage.TAILS, "Keys and values are one position off against each other.", "S > 1",
          staged(logits=_rotated)),
    Fault("values_last_two_swapped", Stage.TAILS, "An unrolled tail writes its pair the wrong way round.", "S > 1",
          staged(mix=_last_values_swapped)),
    Fault("width_odd_feature_lost", Stage.TAILS, "Features are read in pairs.", "D odd", staged(logits=_even_width)),
    Fault("width_beyond_eights_lost", Stage.TAILS, "Features are read in vectors of 8.", "D > 8, no multiple of 8",
          staged(logits=_eights), link="https://github.com/NVIDIA/Megatron-LM/issues/132"),
    Fault("value_odd_feature_lost", Stage.TAILS, "Output features are written in pairs.", "Dv odd",
          staged(finish=_even_values)),
    Fault("value_beyond_width_lost", Stage.TAILS, "The output is allocated with the width of the queries.", "Dv > D",
          staged(finish=_as_wide_as_queries), link="https://github.com/pytorch/pytorch/issues/176767"),
    Fault("rows_of_tail_unwritten", Stage.TAILS, "The last, partial tile of rows is never written.",
          "T > 16, no multiple of 16", staged(finish=_rows_written)),
    Fault("row_last_repeated", Stage.TAILS, "The last row is clamped to the one before.", "T > 1",
          staged(finish=_last_row_from_before)),
    Fault("row_first_lost", Stage.TAILS, "The first row is left at zero.", "any input", staged(finish=_first_row_lost)),
    Fault("batch_first_only", Stage.TAILS, "The grid has one entry for the batch.", "B > 1",
          staged(finish=_first_batch_only), link="https://github.com/pytorch/pytorch/issues/139462"),
    Fault("output_zeros", Stage.OUTPUT, "The kernel never writes; the output is zero-initialised.",
          "values other than 0",
          staged(finish=lambda output, _: np.zeros_like(output)),
          link="https://github.com/ScalingIntelligence/KernelBench/issues/165"),
    Fault("output_mean_of_values", Stage.OUTPUT, "The mean of all values passes loose tests on long rows.", "S > 1",
          staged(mix=_mean_of_values), link="https://github.com/ScalingIntelligence/KernelBench/issues/165"),
    Fault("weights_uniform", Stage.WEIGHTS, "Visible keys all weigh the same.", "logits that differ",
          staged(weigh=_uniform)),
    Fault("output_gain_1e3", Stage.OUTPUT, "A dequantisation factor is 1e-3 off.", "values other than 0",
          staged(finish=lambda output, _: output * output.dtype.type(1.001))),
    Fault("weights_smoothed_1e5", Stage.WEIGHTS, "Weights are smoothed by 1e-5 against the logarithm of zero.",
          "S > 1; in bfloat16 values of very different size", staged(weigh=smoothed(1e-5))),
    Fault("output_noise", Stage.OUTPUT, "A watermark, or a lossy cache, of relative size 1e-3.", "values other than 0",
          staged(finish=_noise)),
    Fault("output_with_residual", Stage.OUTPUT, "The residual connection moved into the attention.",
          "Dv = D, T = S and Hkv = H", staged(take=_residual)),
)
