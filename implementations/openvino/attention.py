"""OpenVINO's opset13 ScaledDotProductAttention on CPU. Every size is dynamic: one model is compiled for all shapes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

Array = Any
Model = Any

DYNAMIC = [-1, -1, -1, -1]
THREADS = {"INFERENCE_NUM_THREADS": 1}
ACCURACY = {**THREADS, "EXECUTION_MODE_HINT": "ACCURACY"}


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
           scale: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv), in the precision of the inputs."""
    return _infer(query, key, value, joined_mask(mask, bias), causal=False, scale=scale)


def attend_fast(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                scale: float | None = None) -> Array:
    """As `attend`, in whatever precision the plugin chooses: its default execution mode is PERFORMANCE."""
    return _infer(query, key, value, joined_mask(mask, bias), causal=False, scale=scale, mode=THREADS)


def attend_causal(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                  causal: bool = False, scale: float | None = None) -> Array:
    """As `attend`, with the causal flag, beside which a mask counts for nothing."""
    return _infer(query, key, value, joined_mask(mask, bias), causal=causal, scale=scale)


def attend_written_out(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None) -> Array:
    """MatMul, Multiply, Add, Softmax and MatMul, which the compiler may put together (its transformation SDPAFusion).
    In execution mode ACCURACY.
    """
    added = joined_mask(mask, bias)
    if mask is not None and bias is None:
        added = np.where(mask, 0, -np.inf).astype(query.dtype)
    factor = np.array(query.shape[-1] ** -0.5, query.dtype)
    inputs = [query, key, value, factor, *([] if added is None else [added])]
    model = _formula(str(query.dtype), added is not None)
    return np.array(model([np.asarray(array, order="C") for array in inputs])[0])


def joined_mask(mask: Array, bias: Array) -> Array:
    """There is one input: boolean (True = may attend), or to be added."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return np.where(mask, bias, np.array(-np.inf, bias.dtype))


def _infer(query: Array, key: Array, value: Array, mask: Array, *, causal: bool, scale: float | None,
           mode: dict[str, Any] = ACCURACY) -> Array:
    inputs = [query, key, value, *([] if mask is None else [mask]),
              *([] if scale is None else [np.array(scale, query.dtype)])]
    compiled = _compiled(str(query.dtype), "" if mask is None else str(mask.dtype), causal, scale is not None,
                         tuple(mode.items()))
    result = compiled([np.asarray(array, order="C") for array in inputs])[0]
    return np.array(result)


@lru_cache(maxsize=128)
def _compiled(dtype: str, mask: str, causal: bool, has_scale: bool, mode: tuple[tuple[str, Any], ...]) -> Model:
    parameters = [ops.parameter(DYNAMIC, np.dtype(dtype)) for _ in range(3)]
    attention_mask = ops.parameter(DYNAMIC, np.dtype(mask)) if mask else None
    scale = ops.parameter([], np.dtype(dtype)) if has_scale else None
    node = ops.scaled_dot_product_attention(*parameters, attention_mask, scale, causal)
    inputs = [*parameters, *(parameter for parameter in (attention_mask, scale) if parameter is not None)]
    return ov.Core().compile_model(ov.Model([node], inputs), "CPU", dict(mode))


@lru_cache(maxsize=8)
def _formula(dtype: str, has_mask: bool) -> Model:  # a cache's key
    query, key, value = (ops.parameter(DYNAMIC, np.dtype(dtype)) for _ in range(3))
    factor, mask = ops.parameter([], np.dtype(dtype)), ops.parameter(DYNAMIC, np.dtype(dtype))
    logits = ops.multiply(ops.matmul(query, key, transpose_a=False, transpose_b=True), factor)
    weights = ops.softmax(ops.add(logits, mask) if has_mask else logits, axis=-1)
    node = ops.matmul(weights, value, transpose_a=False, transpose_b=False)
    inputs = [query, key, value, factor, *([mask] if has_mask else [])]
    return ov.Core().compile_model(ov.Model([node], inputs), "CPU", ACCURACY)
