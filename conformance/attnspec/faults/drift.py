"""Drifts: errors below any one rounding that are the same everywhere, so that training and long chains add them up."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import FLOAT16
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

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
    """A softmax of logits (B,H,T,S) with something added to the denominator."""
    def softmax(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        """Exponentials (B,H,T,S) over their row's sum plus epsilon."""
        grown = sound.exponentials(logits)
        return grown / (grown.sum(axis=-1, keepdims=True) + grown.dtype.type(epsilon))
    return softmax


def _base_two(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) by powers of two, with log2(e) as somebody wrote it down."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S) of logits that are off by the relative error of the constant."""
        return sound.softmax(logits * logits.dtype.type(constant * np.log(2.0)), work)
    return softmax


def _bias_off(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, which log2(e) in float16 made a little too large or small."""
    return logits if work.bias is None else logits + work.bias * logits.dtype.type(_LOG2E_IN_FLOAT16 * np.log(2.0))


def smoothed(share: float) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage: a share of the weight (B,H,T,S) is spread evenly over the visible keys."""
    def weigh(weights: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), mixed with equal ones over the visible keys."""
        even = sound.normalise(work.visible.astype(weights.dtype))
        return (weights * (1 - share) + even * share).astype(weights.dtype)
    return weigh


def _cut(array: Array, bits: int) -> Array:
    """A running sum such as (B,H,T,Dv), its mantissas cut to so many bits, towards zero."""
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits).astype(array.dtype)


def _summed_in(bits: int) -> Callable[[Array, PreparedCall], Array]:
    """A `mix` stage: products with the values (B,H,S,Dv) are summed key by key, each sum cut to so many bits."""
    def mix(weights: Array, work: PreparedCall) -> Array:
        """The output (B,H,T,Dv), cut anew after each key."""
        total = np.zeros((*weights.shape[:3], work.value.shape[-1]), weights.dtype)
        for key in range(work.value.shape[2]):
            total = _cut(total + weights[..., key, None] * work.value[:, :, None, key], bits)
        return total
    return mix


def _upwards(dtype: np.dtype[np.generic]) -> Callable[[Array, PreparedCall], Array]:
    """A `weigh` stage: weights (B,H,T,S) stored in a half dtype, always rounded up."""
    def weigh(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        """Weights (B,H,T,S), the next number up where rounding had lowered them."""
        stored = weights.astype(dtype)
        is_low = stored.astype(weights.dtype) < weights
        return np.where(is_low, np.nextafter(stored, np.ones((), dtype)), stored).astype(weights.dtype)
    return weigh


def _float32_root(work: PreparedCall) -> float:
    if work.scale is not None:
        return work.scale
    return float(1 / np.sqrt(np.float32(work.query.shape[-1])))


FAULTS = (
    Fault("scale_off_1e6", Stage.SCALE, "The scale is off by 1e-6: a constant is typed with six digits.",
          "float32, float64",
          staged(scale=lambda work: sound.scale(work) * 1.000001), equivalents=_HALVES),
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
    Fault("output_gain_1e4", Stage.OUTPUT, "A fast reciprocal of the sum, always 1e-4 too large.", "any input",
          staged(finish=_times(1.0001))),
    Fault("output_gain_1e5", Stage.OUTPUT, "A fast reciprocal of the sum, always 1e-5 too large.",
          "float64, float32 or float16", staged(finish=_times(1.00001)), equivalents=_BFLOAT16),
    Fault("weights_smoothed_1e4", Stage.WEIGHTS, "Weights are smoothed by 1e-4 against the logarithm of zero.",
          "S > 1", staged(weigh=smoothed(1e-4))),
    Fault("weights_float16_upwards", Stage.WEIGHTS, "Weights are stored in float16, rounded to one side.", "S > 1",
          staged(weigh=_upwards(FLOAT16)), link="https://arxiv.org/abs/2510.04212"),
    Fault("accumulated_14_bits", Stage.PRECISION, "The tensor core keeps 14 bits of a sum and cuts off the rest.",
          "S > 1", staged(mix=_summed_in(_BITS_OF_A_TENSOR_CORE)), link="https://arxiv.org/abs/2412.19437"),
)
