"""`keras.ops.dot_product_attention` on whatever backend KERAS_BACKEND names. It puts T before H."""

from __future__ import annotations

from typing import Any

import keras

Array = Any


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv)."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    output = keras.ops.dot_product_attention(query, key, value, bias=bias, mask=mask, scale=scale, is_causal=causal)
    return keras.ops.swapaxes(output, 1, 2)


def merged(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
           scale: float | None = None) -> Array:
    """As `attend`; of mask and bias, which PyTorch's backend does not take together, one bias is made."""
    return merged_causal(query, key, value, mask=mask, bias=bias, scale=scale)


def merged_causal(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                  causal: bool = False, scale: float | None = None) -> Array:
    """As `merged`, with the causal flag, beside which PyTorch's backend does not take a bias either."""
    if mask is not None and bias is not None:
        mask, bias = None, keras.ops.where(mask, bias, float("-inf"))
    return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)
