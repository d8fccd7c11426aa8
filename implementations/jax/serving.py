"""`jax.nn.dot_product_attention` as a server calls it: with numbers of queries and keys, and asked for its residual."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import jax

from .compiled import hurried_jit

Array = Any
Window = Optional[Tuple[int, int]]


def lengths(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, window: Window = None, key_lengths: Array = None,
            query_lengths: Array = None) -> Array:
    """Query (B,H,T,D), key and value (B,Hkv,S,D), numbers of keys and queries (B,) to (B,H,T,D)."""
    return _call(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale, local_window_size=window,
                 query_seq_lengths=query_lengths, key_value_seq_lengths=key_lengths)


def residual(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
             scale: float | None = None, window: Window = None, key_lengths: Array = None,
             query_lengths: Array = None, return_lse: bool = False) -> Array:
    """The same and, if asked for, the log-sum-exp (B,H,T)."""
    return _call(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale, local_window_size=window,
                 query_seq_lengths=query_lengths, key_value_seq_lengths=key_lengths, return_residual=return_lse)


def _call(query: Array, key: Array, value: Array, **keywords: Any) -> Array:  # noqa: ANN401  (the function's own)
    """The function, which puts T before H in outputs and residuals, too."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    answer = jax.nn.dot_product_attention(query, key, value, **keywords)
    return tuple(part.swapaxes(1, 2) for part in answer) if isinstance(answer, tuple) else answer.swapaxes(1, 2)


lengths_jitted = hurried_jit(lengths, "causal", "window")
residual_jitted = hurried_jit(residual, "causal", "window", "return_lse")
