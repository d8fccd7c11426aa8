"""Faults of the scale: forgotten, of another width, rounded, applied twice or elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import AspectFaults, Fault, Outside, Stage
from attnspec.faults.precision import BFLOAT16, FLOAT16, round_through
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall


def _width(work: PreparedCall) -> int:
    return work.query.shape[-1]


def _default(work: PreparedCall, factor: float) -> float:
    """The scale of the call, or `factor` if it leaves the scale to the default."""
    return factor if work.scale is None else work.scale


def _round_scale(work: PreparedCall, dtype: np.dtype[np.generic]) -> float:
    return float(round_through(np.asarray(sound.scale(work), np.float64), dtype))


def _on_top(work: PreparedCall) -> float:
    default = 1 / math.sqrt(_width(work))
    return default if work.scale is None else work.scale * default


def _divided(work: PreparedCall) -> float:
    return sound.scale(work) if work.scale is None else 1 / (work.scale or math.inf)


_FAULTS = (
    Fault("scale_none", Stage.SCALE, "The division by sqrt(d_k) is forgotten.",
          "the default scale, D > 1", staged(scale=lambda work: _default(work, 1.0))),
    Fault("scale_by_width", Stage.SCALE, "The logits are divided by d_k, not by its square root.",
          "the default scale, D > 1", staged(scale=lambda work: _default(work, 1 / _width(work)))),
    Fault("scale_by_model_width", Stage.SCALE, "The logits are divided by sqrt(H·D), the model width, not by sqrt(D).",
          "the default scale, H > 1",
          staged(scale=lambda work: _default(work, 1 / math.sqrt(_width(work) * work.shape[1])))),
    Fault("scale_by_value_width", Stage.SCALE, "The scale uses the width of the values, not of the keys.",
          "the default scale, Dv ≠ D", staged(scale=lambda work: _default(work, 1 / math.sqrt(work.value.shape[-1])))),
    Fault("scale_by_key_count", Stage.SCALE, "The logits are divided by sqrt(S), from the wrong axis of the key.",
          "the default scale, S ≠ D", staged(scale=lambda work: _default(work, 1 / math.sqrt(work.shape[3])))),
    Fault("scale_by_query_count", Stage.SCALE, "The logits are divided by sqrt(T), from the wrong axis of the query.",
          "the default scale, T ≠ D", staged(scale=lambda work: _default(work, 1 / math.sqrt(work.shape[2])))),
    Fault("scale_by_head_count", Stage.SCALE, "The logits are divided by sqrt(H): axis 1 is taken for the head width.",
          "the default scale, H ≠ D", staged(scale=lambda work: _default(work, 1 / math.sqrt(work.shape[1])))),
    Fault("scale_hard_coded", Stage.SCALE, "The scale is always 1/8, which is right for D = 64 only.",
          "the default scale, D ≠ 64", staged(scale=lambda work: _default(work, 0.125))),
    Fault("scale_inverted", Stage.SCALE, "The logits are multiplied by sqrt(d_k), not divided by it.",
          "the default scale, D > 1", staged(scale=lambda work: _default(work, math.sqrt(_width(work))))),
    Fault("scale_fourth_root", Stage.SCALE,
          "The scale is D^-1/4: it is split over query and key, and one half is lost.",
          "the default scale, D > 1", staged(scale=lambda work: _default(work, _width(work) ** -0.25))),
    Fault("scale_applied_twice", Stage.SCALE, "The scale is applied twice, by the caller's helper and by the kernel.",
          "any scale other than 0 and 1", staged(scale=lambda work: sound.scale(work) ** 2)),
    Fault("scale_integer_root", Stage.SCALE, "The square root of D in the scale is an integer square root.",
          "the default scale, D not a square",
          staged(scale=lambda work: _default(work, 1 / math.isqrt(_width(work))))),
    Fault("scale_width_plus_one", Stage.SCALE, "The scale is computed from one feature too many.",
          "the default scale", staged(scale=lambda work: _default(work, 1 / math.sqrt(_width(work) + 1)))),
    Fault("scale_padded_width", Stage.SCALE, "The scale is computed from D padded to a multiple of 8.",
          "the default scale, D not a multiple of 8",
          staged(scale=lambda work: _default(work, 1 / math.sqrt(-(-_width(work) // 8) * 8)))),
    Fault("scale_off_1e2", Stage.SCALE, "The scale is 1 % too large: a temperature was left in.",
          "any shape, logits that differ", staged(scale=lambda work: sound.scale(work) * 1.01)),
    Fault("scale_off_1e3", Stage.SCALE, "The scale is 0.1 % too large, as if typed with three digits.",
          "logits that differ by some tens", staged(scale=lambda work: sound.scale(work) * 1.001)),
    Fault("scale_off_1e4", Stage.SCALE, "The scale is 0.01 % too large, as if typed with four digits.",
          "logits that differ; by hundreds in half dtypes", staged(scale=lambda work: sound.scale(work) * 1.0001)),
    Fault("scale_off_1e5", Stage.SCALE, "The scale is 0.001 % too large, as if typed with five digits.",
          "logits that differ; by a thousand in half dtypes", staged(scale=lambda work: sound.scale(work) * 1.00001)),
    Fault("scale_rounded_to_bfloat16", Stage.SCALE,
          "The scale is rounded to bfloat16, whatever the dtype of the inputs.",
          "a scale that bfloat16 cannot hold, such as D = 48", staged(scale=lambda work: _round_scale(work, BFLOAT16))),
    Fault("scale_rounded_to_float16", Stage.SCALE, "The scale is rounded to float16, whatever the dtype of the inputs.",
          "a scale that float16 cannot hold, such as D = 48", staged(scale=lambda work: _round_scale(work, FLOAT16))),
    Fault("scale_absolute", Stage.SCALE, "A negative scale is used as if it were positive.",
          "a negative scale", staged(scale=lambda work: abs(sound.scale(work)))),
    Fault("scale_zero_is_default", Stage.SCALE, "A scale of 0 is replaced by the default: `scale or default`.",
          "scale = 0", staged(scale=lambda work: work.scale or 1 / math.sqrt(_width(work)))),
    Fault("scale_ignored", Stage.SCALE, "The caller's scale is replaced by the default.",
          "an explicit scale other than the default", staged(scale=lambda work: 1 / math.sqrt(_width(work)))),
    Fault("scale_on_top", Stage.SCALE, "The caller's scale is multiplied by the default.",
          "an explicit scale other than 0, D > 1", staged(scale=_on_top)),
    Fault("scale_divides", Stage.SCALE, "The logits are divided by the caller's scale, not multiplied.",
          "an explicit scale other than 0 and ±1",
          staged(scale=_divided)),
    Fault("scale_after_softmax", Stage.SCALE,
          "The scale is applied to the weights, not to the logits.", "any scale other than 1",
          staged(scale=lambda _: 1.0, weigh=lambda weights, work: weights * weights.dtype.type(sound.scale(work)))),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "wrong axis": {"pytorch/pytorch/pull/156367": "scale_by_head_count"},
    "wrong scale": {"pytorch/pytorch/issues/174049": "scale_ignored"},
}

MISTAKES = AspectFaults(about={"scale": _FAULTS}, bugs=_BUGS)
