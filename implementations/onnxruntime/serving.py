"""The operator Attention in ONNX Runtime on CPU with past keys and values, and with numbers of keys."""

from __future__ import annotations

from typing import Any

from ..onnx.serving import Window, bounds, with_lengths, with_past
from .attention import run

Array = Any


def past(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
         scale: float | None = None, softcap: float | None = None, past_key: Array = None, past_value: Array = None,
         return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,H,L,D), past keys (B,Hkv,P,D) and past values (B,Hkv,P,Dv)."""
    return with_past(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                     past_key=past_key, past_value=past_value, weights=return_weights)


def past_24(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """The same by Attention-24."""
    return with_past(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                     past_key=past_key, past_value=past_value, weights=return_weights, opset=24)


def past_3d(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """The same of inputs (B,L,H·D)."""
    return with_past(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                     past_key=past_key, past_value=past_value, weights=return_weights, three_axes=True)


def past_25(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, window: Window = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """Attention-25, which has a window, of inputs (B,H,L,D) and a past."""
    return with_past(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                     past_key=past_key, past_value=past_value, window=bounds(window), weights=return_weights, opset=25)


def lengths(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, key_lengths: Array = None,
            return_weights: bool = False) -> Array:
    """Attention-24 of inputs (B,H,L,D) and numbers of keys (B,)."""
    return with_lengths(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                        key_lengths=key_lengths, weights=return_weights, opset=24)


def lengths_25(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False, scale: float | None = None, softcap: float | None = None, window: Window = None,
               key_lengths: Array = None, return_weights: bool = False) -> Array:
    """Attention-25, which has a window, of inputs (B,H,L,D) and numbers of keys (B,)."""
    return with_lengths(run, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, softcap=softcap,
                        key_lengths=key_lengths, window=bounds(window), weights=return_weights, opset=25)
