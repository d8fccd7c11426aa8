"""Faults of precision: something is stored or summed more coarsely than declared, values are
dropped at random, or results drift.

A drift is an error below any one rounding that is the same everywhere, so that training and long
chains add it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.problems.problem import Array

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


def round_through(array: Array, dtype: np.dtype[Any]) -> Array:
    """An array, such as logits (B,H,T,S), rounded to another dtype and back."""
    return array.astype(dtype).astype(array.dtype)


def tf32(array: Array) -> Array:
    """An input, such as (B,H,T,D), with the ten bits of mantissa that TF32 tensor cores keep."""
    bits = array.astype(np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(array.dtype)


def levels(array: Array, count: int = 127) -> Array:
    """Keys (B,H,S,D) or values (B,H,S,Dv) in symmetric integers, with one step for all."""
    step = np.abs(array).max(initial=0) / count
    return array if step == 0 or not np.isfinite(step) else np.rint(array / step) * step


def running_sum(terms: Array, dtype: np.dtype[Any]) -> Array:
    """The sum of (…,S) over the last axis, (…,1), stored in `dtype` after each addition."""
    total = np.zeros(terms.shape[:-1], terms.dtype)
    for position in range(terms.shape[-1]):
        total = round_through(total + terms[..., position], dtype)
    return total[..., None]


_EXACT = "inputs of this dtype fit the narrower format, so nothing is lost"


def _inputs(change: Callable[[Array], Array]) -> Callable[[HandedOver], PreparedCall]:
    """A `take` stage that rounds query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,Dv)."""
    def take(call: HandedOver) -> PreparedCall:
        work = sound.take(call)
        return work.but(query=change(work.query), key=change(work.key), value=change(work.value))
    return take


def _logits_through(dtype: np.dtype[Any]) -> Callable[[PreparedCall, float], Array]:
    """A `logits` stage that stores the scaled logits (B,H,T,S) in `dtype`."""
    return lambda work, factor: round_through(sound.logits(work, factor), dtype)


def _raw_logits_in_half(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S), whose dot products are float16 before they are scaled."""
    dots = round_through(sound.logits(work, 1.0), FLOAT16)
    return dots * dots.dtype.type(factor)


def _weights_through(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage that changes the weights (B,H,T,S)."""
    return lambda weights, _: change(weights)


def _softmax_through(dtype: np.dtype[Any]) -> Callable[[Array, PreparedCall], Array]:
    """A `softmax` stage that runs in `dtype`."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S) of logits (B,H,T,S); each intermediate result is stored in `dtype`."""
        lowest = np.finfo(logits.dtype).min  # in a row without a visible key -inf less -inf would be NaN
        top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), lowest)
        grown = round_through(np.exp(round_through(logits - top, dtype)), dtype)
        return round_through(sound.normalise(grown), dtype)
    return softmax


def _accumulated_in(dtype: np.dtype[Any]) -> Callable[[Array, PreparedCall], Array]:
    """A `mix` stage that sums products with the values (B,H,S,Dv) key by key in `dtype`."""
    def mix(weights: Array, work: PreparedCall) -> Array:
        """The output (B,H,T,Dv), of terms (B,H,T,Dv,S) summed one after the other."""
        terms = weights[..., None, :] * work.value.swapaxes(-1, -2)[:, :, None]
        return running_sum(terms, dtype)[..., 0]
    return mix


def _toward_zero(array: Array, io: np.dtype[Any]) -> Array:
    """The output (B,H,T,Dv) or weights (B,H,T,S), truncated instead of rounded."""
    rounded = array.astype(io)
    is_too_large = np.abs(rounded.astype(array.dtype)) > np.abs(array)
    return np.where(is_too_large, np.nextafter(rounded, np.zeros((), io)), rounded)


def _dropout(rate: float, gain: float) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage that drops weights (B,H,T,S) by the same seed at each call."""
    def weigh(weights: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), some of them 0, the others times `gain`."""
        kept = np.random.default_rng(1).random(weights.shape) >= rate
        return np.where(kept, weights * gain, 0).astype(weights.dtype)
    return weigh


PRECISION_FAULTS = (
    Fault("inputs_tf32", Stage.PRECISION, "TF32 is left switched on for float32.",
          "float32 or float64 with full mantissas", staged(take=_inputs(tf32)),
          equivalents={DType.FLOAT16: _EXACT, DType.BFLOAT16: _EXACT}),
    Fault("inputs_bfloat16", Stage.PRECISION, "Autocast to bfloat16.", "any other dtype, with full mantissas",
          staged(take=_inputs(lambda array: round_through(array, BFLOAT16))), equivalents={DType.BFLOAT16: _EXACT}),
    Fault("inputs_float16", Stage.PRECISION, "Autocast to float16.",
          "float32, float64, or bfloat16 beyond float16's range",
          staged(take=_inputs(lambda array: round_through(array, FLOAT16))), equivalents={DType.FLOAT16: _EXACT}),
    Fault("inputs_float8", Stage.PRECISION, "Queries, keys and values are stored in float8.",
          "inputs that float8 cannot hold", staged(take=_inputs(lambda array: round_through(array, FLOAT8)))),
    Fault("logits_bfloat16", Stage.PRECISION, "The logits are stored in bfloat16.",
          "logits that are not small", staged(logits=_logits_through(BFLOAT16))),
    Fault("logits_float16", Stage.PRECISION, "The logits are stored in float16.",
          "logits that are not small", staged(logits=_logits_through(FLOAT16))),
    Fault("logits_raw_float16", Stage.PRECISION, "The dot products are stored in float16 before they are scaled.",
          "dot products that float16 cannot hold", staged(logits=_raw_logits_in_half)),
    Fault("softmax_bfloat16", Stage.PRECISION, "The softmax runs in bfloat16.", "S > 1",
          staged(softmax=_softmax_through(BFLOAT16))),
    Fault("softmax_float16", Stage.PRECISION, "The softmax runs in float16.", "S > 1",
          staged(softmax=_softmax_through(FLOAT16))),
    Fault("weights_bfloat16", Stage.PRECISION, "The weights are stored in bfloat16, while G0 is declared.", "S > 1",
          staged(weigh=_weights_through(lambda weights: round_through(weights, BFLOAT16)))),
    Fault("weights_float16", Stage.PRECISION, "The weights are stored in float16, while G0 is declared.", "S > 1",
          staged(weigh=_weights_through(lambda weights: round_through(weights, FLOAT16)))),
    Fault("weights_float8", Stage.PRECISION, "The weights are stored in float8.", "S > 1",
          staged(weigh=_weights_through(lambda weights: round_through(weights, FLOAT8)))),
    Fault("weights_int8", Stage.PRECISION, "The weights are stored in 255 levels.", "S > 1",
          staged(weigh=_weights_through(lambda weights: (np.rint(weights * 255) / 255).astype(weights.dtype)))),
    Fault("values_int8", Stage.PRECISION, "The value cache is quantised to 127 levels a side.",
          "full mantissas", staged(mix=lambda weights, work: weights @ levels(work.value))),
    Fault("keys_int8", Stage.PRECISION, "The key cache is quantised to 127 levels a side.", "full mantissas",
          staged(logits=lambda work, factor: sound.logits(work.but(key=levels(work.key)), factor))),
    Fault("accumulated_bfloat16", Stage.PRECISION, "Products with the values are summed in bfloat16.", "S > 1",
          staged(mix=_accumulated_in(BFLOAT16))),
    Fault("accumulated_float16", Stage.PRECISION, "Products with the values are summed in float16.", "S > 1",
          staged(mix=_accumulated_in(FLOAT16))),
    Fault("output_truncated", Stage.PRECISION, "Bits are cut off instead of rounded.", "half dtypes",
          staged(narrow=_toward_zero), equivalents={
              DType.FLOAT32: "the computation is in float32 already", DType.FLOAT64: "it is in float64 already"}),
    Fault("output_by_way_of_float16", Stage.PRECISION, "The output passes through a float16 buffer.",
          "float32, float64, or outputs of bfloat16 beyond float16's range",
          staged(narrow=lambda array, io: round_through(array, FLOAT16).astype(io)),
          equivalents={DType.FLOAT16: "the output is rounded to float16 anyway"}),
    Fault("output_by_way_of_bfloat16", Stage.PRECISION, "The output passes through a bfloat16 buffer.",
          "any other dtype", staged(narrow=lambda array, io: round_through(array, BFLOAT16).astype(io)),
          equivalents={DType.BFLOAT16: "the output is rounded to bfloat16 anyway"}),
    Fault("dropout_of_1_percent", Stage.WEIGHTS, "Dropout stays on in evaluation, with a fixed seed.", "any input",
          staged(weigh=_dropout(0.01, 1 / 0.99))),
    Fault("dropout_not_rescaled", Stage.WEIGHTS, "Dropout is on, and the weights that are kept are not scaled up.",
          "B·H·T·S > 9", staged(weigh=_dropout(0.1, 1.0))),
)


_BITS_OF_A_TENSOR_CORE = 14
_LOG2E_IN_FLOAT16 = float(np.float16(np.log2(np.e)))

_BELOW = "it is no more than the systematic error that the class declares, or than 480 head slices resolve"
_BFLOAT16 = {DType.BFLOAT16: _BELOW}
_HALVES = {DType.FLOAT16: _BELOW, DType.BFLOAT16: _BELOW}
_IS_FLOAT32 = "everything is computed in float32 already"


def _times(factor: float) -> Callable[[Array, PreparedCall], Array]:
    """A `finish` stage that multiplies the output (B,H,T,Dv)."""
    return lambda output, _: output * output.dtype.type(factor)


def _with_epsilon(epsilon: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) that adds an epsilon to the sum."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Exponentials (B,H,T,S) over the row's sum plus epsilon."""
        grown = sound.exponentials(logits)
        return grown / (grown.sum(axis=-1, keepdims=True) + grown.dtype.type(epsilon))
    return softmax


def _base_two(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) by powers of 2, with a log2(e) that is off."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), of logits times the relative error of that constant."""
        return sound.softmax(logits * logits.dtype.type(constant * np.log(2.0)), work)
    return softmax


def _bias_off(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, which a log2(e) in float16 has made larger or smaller."""
    if work.bias is None:
        return logits
    return logits + work.bias * logits.dtype.type(_LOG2E_IN_FLOAT16 * np.log(2.0))


def smooth_weights(share: float) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage that spreads a share of the weights (B,H,T,S) over the visible keys."""
    def weigh(weights: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), mixed with equal ones."""
        even = sound.normalise(work.visible.astype(weights.dtype))
        return (weights * (1 - share) + even * share).astype(weights.dtype)
    return weigh


def _cut_mantissas(array: Array, bits: int) -> Array:
    """An array, such as sums (B,H,T,Dv), with mantissas cut to so many bits, towards zero."""
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits).astype(array.dtype)


def _summed_in(bits: int) -> Callable[[Array, PreparedCall], Array]:
    """A `mix` stage that sums products with the values (B,H,S,Dv) key by key in so many bits."""
    def mix(weights: Array, work: PreparedCall) -> Array:
        """The output (B,H,T,Dv), cut anew after each key."""
        total = np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype)
        for key in range(work.value.shape[2]):
            total = _cut_mantissas(total + weights[..., key, None] * work.value[:, :, None, key], bits)
        return total
    return mix


def _upwards(dtype: np.dtype[np.generic]) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage that stores weights (B,H,T,S) in a half dtype, always rounded up."""
    def weigh(weights: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), the next number up if rounding had lowered them."""
        stored = weights.astype(dtype)
        is_low = stored.astype(weights.dtype) < weights
        return np.where(is_low, np.nextafter(stored, np.ones((), dtype)), stored).astype(weights.dtype)
    return weigh


def _float32_root(work: PreparedCall) -> float:
    if work.scale is not None:
        return work.scale
    return float(1 / np.sqrt(np.float32(work.query.shape[-1])))


DRIFT_FAULTS = (
    Fault("scale_off_1e6", Stage.SCALE, "The scale is off by 1e-6: a constant is typed with six digits.",
          "float32, float64", staged(scale=lambda work: sound.scale(work) * 1.000001), equivalents=_HALVES),
    Fault("scale_root_in_float32", Stage.SCALE, "The root is held in a float32 tensor that no conversion reaches.",
          "float64, the default scale, D no power of four", staged(scale=_float32_root),
          equivalents=dict.fromkeys((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), _IS_FLOAT32)),
    Fault("exp_log2e_short", Stage.SOFTMAX, "exp2(x · 1.443): log2(e) is typed with four digits.",
          "logits that differ", staged(softmax=_base_two(1.443))),
    Fault("exp_log2e_float16", Stage.SOFTMAX, "exp2(x · log2(e)) with the constant held in float16.",
          "logits that differ", staged(softmax=_base_two(_LOG2E_IN_FLOAT16))),
    Fault("bias_log2e_float16", Stage.BIAS, "For exp2 the bias is multiplied by log2(e) in float16, the rest in full.",
          "a bias", staged(add_bias=_bias_off)),
    Fault("softmax_epsilon_2e4", Stage.SOFTMAX, "2e-4 is added to the denominator.", "any input",
          staged(softmax=_with_epsilon(2e-4))),
    Fault("output_gain_1e4", Stage.OUTPUT, "A fast reciprocal of the sum, always 1e-4 too large.",
          "any input", staged(finish=_times(1.0001))),
    Fault("output_gain_1e5", Stage.OUTPUT, "A fast reciprocal of the sum, always 1e-5 too large.",
          "float64, float32 or float16", staged(finish=_times(1.00001)), equivalents=_BFLOAT16),
    Fault("weights_smoothed_1e4", Stage.WEIGHTS, "Weights are smoothed by 1e-4 against the logarithm of zero.",
          "S > 1", staged(weigh=smooth_weights(1e-4))),
    Fault("weights_float16_upwards", Stage.WEIGHTS, "Weights are stored in float16, rounded to one side.", "S > 1",
          staged(weigh=_upwards(FLOAT16)), link="https://arxiv.org/abs/2510.04212"),
    Fault("accumulated_14_bits", Stage.PRECISION, "The tensor core keeps 14 bits of a sum and cuts off the rest.",
          "S > 1", staged(mix=_summed_in(_BITS_OF_A_TENSOR_CORE)), link="https://arxiv.org/abs/2412.19437"),
)
