"""Attention over a cache of codes, as servers call it: dequantise what the cache holds, and attend as without codes.

One scale serves past and new codes, as a cache has one scale for what is written and what is read; where each token has
its own, those of past tokens stand first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import packed, paged, serving
from .attention import Array, wide_of
from .packed_codes import unpacked
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


def packed_by_head(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = False,
                   scale: float | None = None, key_scale: Array | None = None,
                   value_scale: Array | None = None) -> Array:
    """Query (Nq,H,D), codes key (Nk,Hkv,D) and value (Nk,Hkv,Dv) of sequences one behind the other, and scales
    (B,Hkv), one for each sequence and head, to (Nq,H,Dv).
    """
    own = np.repeat(np.arange(len(cu_key) - 1), np.diff(cu_key))
    of_key, of_value = (None if each is None else each[own][..., None] for each in (key_scale, value_scale))
    return packed_sequences(query, key, value, of_key, of_value, cu_query=cu_query, cu_key=cu_key, causal=causal,
                            scale=scale)


def packed_by_token(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = False,
                    scale: float | None = None, key_scale: Array | None = None,
                    value_scale: Array | None = None) -> Array:
    """The same with scales (Nk,Hkv), one for each token, packed as the codes are."""
    of_key, of_value = (None if each is None else each[..., None] for each in (key_scale, value_scale))
    return packed_sequences(query, key, value, of_key, of_value, cu_query=cu_query, cu_key=cu_key, causal=causal,
                            scale=scale)


def packed_sequences(query: Array, key: Array, value: Array, of_key: Array | None, of_value: Array | None, *,
                     cu_query: Array, cu_key: Array, causal: bool, scale: float | None) -> Array:
    """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv) and scales that broadcast to them, to (Nq,H,Dv)."""
    wide = wide_of(query)
    answer = packed.attention(query.astype(wide), times(key, of_key, wide), times(value, of_value, wide),
                              cu_query=cu_query, cu_key=cu_key, causal=causal, scale=scale)
    return answer.astype(query.dtype)


def paged_by_head(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                  causal: bool = False, window: tuple[int | None, int | None] | None = None, sinks: Array | None = None,
                  return_lse: bool = False, key_scale: Array | None = None,
                  value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """Query (B,H,T,D), codes key (pages,page,Hkv,D) and value (pages,page,Hkv,Dv), and scales (Hkv,), to (B,H,T,Dv)."""
    of_key, of_value = (None if each is None else each[:, None] for each in (key_scale, value_scale))
    return pages_of_codes(query, key, value, of_key, of_value, block_table=block_table, key_lengths=key_lengths,
                          causal=causal, window=window, sinks=sinks, return_lse=return_lse)


def paged_by_token(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                   causal: bool = False, window: tuple[int | None, int | None] | None = None,
                   sinks: Array | None = None, return_lse: bool = False, key_scale: Array | None = None,
                   value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """The same with scales (pages,page,Hkv), one for each slot."""
    of_key, of_value = (None if each is None else each[..., None] for each in (key_scale, value_scale))
    return pages_of_codes(query, key, value, of_key, of_value, block_table=block_table, key_lengths=key_lengths,
                          causal=causal, window=window, sinks=sinks, return_lse=return_lse)


def paged_by_page(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                  causal: bool = False, window: tuple[int | None, int | None] | None = None, sinks: Array | None = None,
                  return_lse: bool = False, key_scale: Array | None = None,
                  value_scale: Array | None = None) -> Array | tuple[Array, ...]:
    """The same with scales (pages,Hkv), one for each page."""
    of_key, of_value = (None if each is None else each[:, None, :, None] for each in (key_scale, value_scale))
    return pages_of_codes(query, key, value, of_key, of_value, block_table=block_table, key_lengths=key_lengths,
                          causal=causal, window=window, sinks=sinks, return_lse=return_lse)


def pages_of_codes(query: Array, key: Array, value: Array, of_key: Array | None, of_value: Array | None, *,
                   block_table: Array, key_lengths: Array, causal: bool, window: tuple[int | None, int | None] | None,
                   sinks: Array | None, return_lse: bool) -> Array | tuple[Array, ...]:
    """Query (B,H,T,D), pools of codes and scales that broadcast to them, to (B,H,T,Dv). The pool is dequantised whole;
    a kernel does so page by page, where the table points.
    """
    wide, dtype = wide_of(query), query.dtype
    answer = paged.attention(query.astype(wide), times(key, of_key, wide), times(value, of_value, wide),
                             block_table=block_table, key_lengths=key_lengths, causal=causal, window=window,
                             sinks=sinks, return_lse=return_lse)
    return (answer[0].astype(dtype), *answer[1:]) if isinstance(answer, tuple) else answer.astype(dtype)


class CachedCodes(NamedTuple):
    """Codes (B,Hkv,P,D) and (B,Hkv,P,Dv) of earlier calls, and the scales (B,Hkv,P) that came with them; ones where a
    call had none.
    """

    key: Array
    value: Array
    key_scale: Array
    value_scale: Array


def decoder_by_token(query: Array, key: Array, value: Array, cache: CachedCodes | None, *, mask: Array | None = None,
                     causal: bool = False, key_lengths: Array | None = None, sinks: Array | None = None,
                     key_scale: Array | None = None, value_scale: Array | None = None) -> tuple[Array, CachedCodes]:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), and the scales (B,Hkv,S) of the new codes, to
    (B,H,T,Dv) and the cache: codes and scales stay what they were when they were stored.
    """
    new = CachedCodes(key, value, *(np.ones(key.shape[:3], np.float32) if each is None else each
                                    for each in (key_scale, value_scale)))
    held = new if cache is None else CachedCodes(*(np.concatenate(pair, axis=2) for pair in zip(cache, new)))
    past = held.key.shape[2] - key.shape[2]
    answer = by_token(query, key, value, mask=mask, causal=causal, key_lengths=key_lengths, sinks=sinks,
                      past_key=held.key[:, :, :past], past_value=held.value[:, :, :past], key_scale=held.key_scale,
                      value_scale=held.value_scale)
    assert isinstance(answer, np.ndarray)  # nothing else was asked for
    return answer, held


def paged_nibbles_with_zeros(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                             causal: bool = False, window: tuple[int | None, int | None] | None = None,
                             key_scale: Array | None = None, value_scale: Array | None = None,
                             key_zero: Array | None = None, value_zero: Array | None = None) -> Array:
    """Query (B,H,T,D), bytes key (pages,page,Hkv,D/2) and value (pages,page,Hkv,Dv/2) of two codes of UINT4 each, low
    nibble first, scales and zero points (pages,page,Hkv), one for each slot, to (B,H,T,Dv).
    """
    wide = wide_of(query)
    numbers = []
    for codes, scale, zero in ((unpacked(key, query.shape[-1]), key_scale, key_zero),
                               (unpacked(value, 2 * value.shape[-1]), value_scale, value_zero)):
        left = codes.astype(wide) if zero is None else codes.astype(wide) - zero[..., None].astype(wide)
        numbers.append(times(left, None if scale is None else scale[..., None], wide))
    answer = paged.attention(query.astype(wide), *numbers, block_table=block_table, key_lengths=key_lengths,
                             causal=causal, window=window)
    assert isinstance(answer, np.ndarray)  # nothing else was asked for
    return answer.astype(query.dtype)
