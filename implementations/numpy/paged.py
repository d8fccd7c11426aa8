"""Scaled dot-product attention over keys and values that lie in pages, as a server's cache holds them."""

from __future__ import annotations

import numpy as np

from . import serving
from .attention import Array


def attention(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array, causal: bool = False,
              scale: float | None = None, window: tuple[int | None, int | None] | None = None,
              softcap: float | None = None, query_lengths: Array | None = None, sinks: Array | None = None,
              return_lse: bool = False, alibi_slopes: Array | None = None) -> Array | tuple[Array, ...]:
    """Query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv) to (B,H,T,Dv), with a log-sum-exp (B,H,T) if
    asked for. Key j of batch entry b stands in slot j % page of page block_table[b, j // page], for j < key_lengths[b];
    what the table names beyond is not read.
    """
    page = key.shape[1]
    place = np.arange(block_table.shape[1] * page)
    pages = np.where(place < key_lengths[:, None], block_table[:, place // page], 0)
    key, value = (array[pages, place % page].swapaxes(1, 2) for array in (key, value))
    return serving.attention(
        query, key, value, causal=causal, scale=scale, window=window, softcap=softcap, key_lengths=key_lengths,
        query_lengths=query_lengths, sinks=sinks, return_lse=return_lse, alibi_slopes=alibi_slopes)
