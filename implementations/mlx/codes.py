"""Attention over an FP8 (E4M3) cache in MLX on CPU: `from_fp8`, scales, `fast.scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .arrays import to_mlx, to_numpy

Array = Any


def over_cache(query: Array, key: Array, value: Array, *, mask: Array = None, scale: float | None = None,
               key_scale: Array = None, value_scale: Array = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (Hkv,) of each, to (B,H,T,Dv)."""
    numbers = [_dequantised(codes, scales) for codes, scales in ((key, key_scale), (value, value_scale))]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    output = mx.fast.scaled_dot_product_attention(
        to_mlx(query).astype(mx.float32), *numbers, scale=float(factor), mask=None if mask is None else mx.array(mask))
    return to_numpy(output.astype(to_mlx(query[:0]).dtype))


def _dequantised(codes: Array, scales: Array | None) -> Array:
    """Codes (B,Hkv,S,D) in float32, times the scales (Hkv,) of their heads."""
    numbers = mx.from_fp8(mx.array(np.ascontiguousarray(codes).view(np.uint8)), dtype=mx.float32)
    return numbers if scales is None else numbers * mx.array(scales)[:, None, None]
