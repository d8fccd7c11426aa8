"""Attention over a cache of codes, as servers call it: dequantise what the cache holds, and attend as without codes.

One scale serves past and new codes, as a cache has one scale for what is written and what is read; where each token has
its own, those of past tokens stand first.
"""

from __future__ import annotations

import numpy as np

from . import serving
from .attention import Array, wide_of
from .quantised import times


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
              causal: bool = False, scale: float | None = None, window: tuple[int | None, int | None] | None = None,
              softcap: float | None = None, key_lengths: Array | None = None, query_lengths: Array | None = None,
              sinks: Array | None = None, return_lse: bool = False, past_key: Array | None = None,
              past_value: Array | None = None, alibi_slopes: Array | None = None, query_scale: Array | None = None,
              key_scale: Array | None = None, value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv) behind past ones, and scales that broadcast to the
    codes of all keys, to (B,H,T,Dv), with a log-sum-exp (B,H,T) if asked for.
    """
    wide, dtype = wide_of(query), query.dtype
    if past_key is not None and past_value is not None:
        past, key, value = past_key.shape[2], *(np.concatenate(pair, axis=2) for pair in (
            (past_key, key), (past_value, value)))
    else:
        past = 0
    key, value = times(key, key_scale, wide), times(value, value_scale, wide)
    answer = serving.attention(
        times(query, query_scale, wide), key[:, :, past:], value[:, :, past:], mask=mask, bias=bias, causal=causal,
        scale=scale, window=window, softcap=softcap, key_lengths=key_lengths, query_lengths=query_lengths, sinks=sinks,
        return_lse=return_lse, alibi_slopes=alibi_slopes, past_key=key[:, :, :past], past_value=value[:, :, :past])
    return (answer[0].astype(dtype), *answer[1:]) if isinstance(answer, tuple) else answer.astype(dtype)


def by_head(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
            window: tuple[int | None, int | None] | None = None, key_lengths: Array | None = None,
            sinks: Array | None = None, return_lse: bool = False, past_key: Array | None = None,
            past_value: Array | None = None, key_scale: Array | None = None,
            value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """The same with scales (Hkv,), one for each head, of past and new codes alike."""
    of_key, of_value = (None if each is None else each[:, None, None] for each in (key_scale, value_scale))
    return attention(query, key, value, mask=mask, causal=causal, window=window, key_lengths=key_lengths, sinks=sinks,
                     return_lse=return_lse, past_key=past_key, past_value=past_value, key_scale=of_key,
                     value_scale=of_value)


def by_token(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
             window: tuple[int | None, int | None] | None = None, key_lengths: Array | None = None,
             sinks: Array | None = None, return_lse: bool = False, past_key: Array | None = None,
             past_value: Array | None = None, key_scale: Array | None = None,
             value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """The same with scales (B,Hkv,P+S), one for each token of the cache, past ones first."""
    of_key, of_value = (None if each is None else each[..., None] for each in (key_scale, value_scale))
    return attention(query, key, value, mask=mask, causal=causal, window=window, key_lengths=key_lengths, sinks=sinks,
                     return_lse=return_lse, past_key=past_key, past_value=past_value, key_scale=of_key,
                     value_scale=of_value)
