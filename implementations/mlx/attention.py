"""`mlx.core.fast.scaled_dot_product_attention`: on CPU its fallback in plain operations, with and without gradient."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import mlx.core as mx

from .arrays import to_mlx, to_numpy

Array = Any


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv). Without a scale, the typical one."""
    arrays = [to_mlx(array) for array in (query, key, value)]
    given = _mask(mask, bias, causal=causal)
    return to_numpy(mx.fast.scaled_dot_product_attention(*arrays, scale=_scale(query, scale), mask=given))


def with_sinks(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False, scale: float | None = None, sinks: Array = None) -> Array:
    """As `attend`, with sinks (H,), which must be of the inputs' dtype or a narrower one."""
    arrays = [to_mlx(array) for array in (query, key, value)]
    given, joined = _mask(mask, bias, causal=causal), None if sinks is None else to_mlx(sinks.astype(query.dtype))
    return to_numpy(mx.fast.scaled_dot_product_attention(*arrays, scale=_scale(query, scale), mask=given, sinks=joined))


def with_gradient(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                  causal: bool = False, scale: float | None = None) -> Array:
    """As `attend`, the forward pass of a vector-Jacobian product."""
    arrays = [to_mlx(array) for array in (query, key, value)]
    given, factor = _mask(mask, bias, causal=causal), _scale(query, scale)

    def attention(query: Array, key: Array, value: Array) -> Array:
        return mx.fast.scaled_dot_product_attention(query, key, value, scale=factor, mask=given)

    shape = (*query.shape[:3], value.shape[3])
    outputs, _ = mx.vjp(attention, arrays, [mx.ones(shape, arrays[0].dtype)])
    return to_numpy(outputs[0])


def compiled(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
             scale: float | None = None) -> Array:
    """As `attend`, under mx.compile."""
    arrays = [to_mlx(array) for array in (query, key, value)]
    given, factor = _mask(mask, bias, causal=causal), _scale(query, scale)
    if given is None or isinstance(given, str):
        return to_numpy(mx.compile(partial(mx.fast.scaled_dot_product_attention, scale=factor, mask=given))(*arrays))

    def masked(query: Array, key: Array, value: Array, mask: Array) -> Array:
        return mx.fast.scaled_dot_product_attention(query, key, value, scale=factor, mask=mask)

    return to_numpy(mx.compile(masked)(*arrays, given))


def _scale(query: Array, scale: float | None) -> float:
    """The function has no default; its documentation calls 1/sqrt(D) typical."""
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _mask(mask: Array, bias: Array, *, causal: bool) -> Array | str | None:
    """There is one argument: the word "causal", a boolean array (True = may attend), or an array to be added."""
    if causal and (mask is not None or bias is not None):
        message = 'mask is either "causal" or an array'
        raise ValueError(message)
    if causal:
        return "causal"
    if mask is None or bias is None:
        return to_mlx(bias if mask is None else mask)
    return mx.where(to_mlx(mask), to_mlx(bias), mx.array(-math.inf, to_mlx(bias).dtype))
