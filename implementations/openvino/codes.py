"""Codes for keys and values in OpenVINO on CPU: Convert and Multiply before ScaledDotProductAttention, in execution
mode ACCURACY. Formats that NumPy lacks are handed over as their bytes, two codes of 4 bits to a byte, the first
one low.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from .attention import ACCURACY, DYNAMIC, joined_mask

Array = Any
Model = Any

TYPES = {"int8": ov.Type.i8, "int4": ov.Type.i4, "float8_e4m3fn": ov.Type.f8e4m3, "float8_e5m2": ov.Type.f8e5m2}


def by_head(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
            scale: float | None = None, key_scale: Array = None, value_scale: Array = None) -> Array:
    """Query (B,H,T,D), codes key (B,H,S,D) and value (B,H,S,Dv), scales (H,) of each, to (B,H,T,Dv)."""
    given, storage = joined_mask(mask, bias), str(key.dtype)
    codes = [_tensor(array, storage) for array in (key, value)]
    one = np.ones(query.shape[1], np.float32)
    scales = [(one if array is None else array)[None, :, None, None] for array in (key_scale, value_scale)]
    more = [*([] if given is None else [given]), *([] if scale is None else [np.array(scale, query.dtype)])]
    compiled = _compiled(str(query.dtype), storage, "" if given is None else str(given.dtype), scale is not None)
    inputs = [np.asarray(query, order="C"), *codes, *scales, *(np.asarray(array, order="C") for array in more)]
    return np.array(compiled(inputs)[0])


def _tensor(codes: Array, storage: str) -> Any:  # noqa: ANN401  (openvino is not seen by mypy)
    """Codes (B,H,S,D) as a tensor of their type."""
    if storage == "int8":
        return np.asarray(codes, order="C")
    if storage != "int4":
        return ov.Tensor(np.ascontiguousarray(codes).view(np.uint8), ov.Shape(codes.shape), TYPES[storage])
    nibbles = np.append(codes.astype(np.int16).ravel(), np.zeros(codes.size % 2, np.int16)) & 15
    return ov.Tensor((nibbles[::2] | nibbles[1::2] << 4).astype(np.uint8), ov.Shape(codes.shape), TYPES[storage])


@lru_cache(maxsize=64)
def _compiled(dtype: str, storage: str, mask: str, has_scale: bool) -> Model:  # a cache's key
    number = np.dtype(dtype)
    query, codes = ops.parameter(DYNAMIC, number), [ops.parameter(DYNAMIC, TYPES[storage]) for _ in range(2)]
    scales = [ops.parameter([1, -1, 1, 1], np.float32) for _ in range(2)]
    key, value = (_dequantised(each, by, dtype) for each, by in zip(codes, scales))
    attention_mask = ops.parameter(DYNAMIC, np.dtype(mask)) if mask else None
    scale = ops.parameter([], number) if has_scale else None
    node = ops.scaled_dot_product_attention(query, key, value, attention_mask, scale, False)
    optional = [each for each in (attention_mask, scale) if each is not None]
    return ov.Core().compile_model(ov.Model([node], [query, *codes, *scales, *optional]), "CPU", ACCURACY)


def _dequantised(codes: Any, scale: Any, dtype: str) -> Any:  # noqa: ANN401  (openvino is not seen by mypy)
    """Codes (B,H,S,D) in float32 times their scale, and then in the dtype of the query."""
    return ops.convert(ops.multiply(ops.convert(codes, "f32"), scale), np.dtype(dtype))
