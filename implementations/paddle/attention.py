"""`paddle.nn.functional.scaled_dot_product_attention` on CPU. It puts T before H."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

Array = Any


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
           causal: bool = False) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), without gradient. There is no scale."""
    with paddle.no_grad():
        return _attend(query, key, value, mask=mask, bias=bias, causal=causal, gradient=False)


def with_gradient(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                  causal: bool = False) -> Array:
    """As `attend`, while it records for a backward pass."""
    return _attend(query, key, value, mask=mask, bias=bias, causal=causal, gradient=True)


def dropout_off(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                causal: bool = False) -> Array:
    """As `attend`, with a dropout of one half and training=False, where it should do nothing."""
    with paddle.no_grad():
        return _attend(query, key, value, mask=mask, bias=bias, causal=causal, gradient=False, dropout_p=0.5,
                       training=False)


def _attend(query: Array, key: Array, value: Array, *, mask: Array, bias: Array, causal: bool, gradient: bool,
            **more: object) -> Array:
    tensors = [paddle.to_tensor(np.ascontiguousarray(array.swapaxes(1, 2)), stop_gradient=not gradient)
               for array in (query, key, value)]
    output = scaled_dot_product_attention(*tensors, attn_mask=attn_mask(mask, bias), is_causal=causal, **more)
    return output.numpy().swapaxes(1, 2)


def attn_mask(mask: Array, bias: Array) -> Array:
    """There is one argument for mask and bias: boolean (True = may attend), or to be added."""
    both = np.where(mask, bias, np.array(-np.inf, bias.dtype)) if mask is not None and bias is not None else None
    given = next((array for array in (both, mask, bias) if array is not None), None)
    return None if given is None else paddle.to_tensor(np.ascontiguousarray(given))
