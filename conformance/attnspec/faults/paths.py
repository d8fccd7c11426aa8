"""Paths that give up, and hidden switches that take another path."""

from __future__ import annotations

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import around, attention, staged
from attnspec.faults.work import Answer, HandedOver

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


def _narrowed(call: HandedOver) -> Answer:
    """Float64 is taken for float32 inside; what comes back says float64."""
    io = call.query.dtype
    if io != np.float64:
        return attention(call)
    narrow = (array.astype(np.float32) for array in (call.query, call.key, call.value))
    query, key, value = narrow
    bias = None if call.bias is None else call.bias.astype(np.float32)
    answer = attention(call.but(query=query, key=key, value=value, bias=bias))
    return (answer[0].astype(io), answer[1].astype(io)) if isinstance(answer, tuple) else answer.astype(io)


FAULTS = (
    Fault("causal_needs_mask", Stage.CAUSAL, "The causal mask is combined with the caller's mask, which may be absent.",
          "causal without a mask", around(_causal_with_mask_only),
          link="https://github.com/keras-team/keras/pull/19093"),
    Fault("mask_not_broadcast", Stage.MASK,
          "The mask is passed on without broadcasting to a kernel that needs its full shape.",
          "a mask with an axis of length 1", around(_full_mask_only),
          link="https://github.com/jax-ml/jax/issues/28974"),
    Fault("mask_in_float32", Stage.MASK, "The mask is cast to the default dtype, not to that of the scores.",
          "a mask in float16 or bfloat16", around(_mask_in_float32),
          link="https://github.com/tensorflow/tensorflow/issues/46064",
          equivalents={DType.FLOAT32: _IS_WIDE, DType.FLOAT64: _IS_WIDE}),
    Fault("float64_narrowed", Stage.PRECISION, "float64 is not enabled, so all of it is computed in float32.",
          "float64", around(_narrowed),
          equivalents=dict.fromkeys((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), _IS_FLOAT32)),
)


_FAST = "https://github.com/keras-team/keras/issues/23038"

SWITCHES: tuple[Fault, ...] = (
    Fault("switch_mask_dropped", Stage.MASK, "The fused path never looks at the mask; the plain one does.",
          "any mask with a masked key", staged(masked=lambda work: np.ones(work.shape, bool)), other_path=staged()),
    Fault("switch_causal_dropped", Stage.CAUSAL,
          "The causal flag is dropped on the path that keeps scores for the backward pass.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool)), link=_FAST,
          other_path=staged()),
    Fault("switch_scale_left_out", Stage.SCALE, "The fused kernel scales by itself, the plain path not at all.",
          "any scale other than 1", staged(scale=lambda _: 1.0), other_path=staged()),
)
