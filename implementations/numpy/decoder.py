"""Attention that is called step after step, as a decoder calls it: each call hands back the cache for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from . import serving
from .attention import Array, wide_of

SLOTS = 128


class Cache(NamedTuple):
    """Buffers (B,Hkv,SLOTS,D) and (B,Hkv,SLOTS,Dv), allocated once, of which the first `taken` slots are in use."""

    key: Array
    value: Array
    taken: int


def attention(query: Array, key: Array, value: Array, cache: Cache | None, *, mask: Array | None = None,
              bias: Array | None = None, causal: bool = False, scale: float | None = None,
              window: tuple[int | None, int | None] | None = None, softcap: float | None = None,
              key_lengths: Array | None = None, sinks: Array | None = None, return_lse: bool = False,
              alibi_slopes: Array | None = None) -> tuple[object, ...]:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), a log-sum-exp (B,H,T) if asked for, and the
    cache with the new keys. Raises ValueError where it has no room for them.
    """
    held = cache or Cache(_buffer(key), _buffer(value), 0)
    end = held.taken + key.shape[2]
    if end > SLOTS:
        raise ValueError(f"the cache has {SLOTS} slots, and {end} keys do not fit")
    stored = Cache(_written(held.key, key, held.taken), _written(held.value, value, held.taken), end)
    answer = serving.attention(
        query, key, value, mask=mask, bias=bias, causal=causal, scale=scale, window=window, softcap=softcap,
        key_lengths=key_lengths, sinks=sinks, return_lse=return_lse, alibi_slopes=alibi_slopes,
        past_key=held.key[:, :, :held.taken], past_value=held.value[:, :, :held.taken])
    return (*answer, stored) if return_lse else (answer, stored)


def _buffer(new: Array) -> Array:
    """An empty buffer (B,Hkv,SLOTS,·) for entries (B,Hkv,S,·)."""
    return np.empty((*new.shape[:2], SLOTS, new.shape[3]), new.dtype)


def _written(buffer: Array, new: Array, first: int) -> Array:
    """A buffer (B,Hkv,SLOTS,·) with new entries (B,Hkv,S,·) from slot `first` on; who holds the old one keeps it."""
    buffer = buffer.copy()
    buffer[:, :, first:first + new.shape[2]] = new
    return buffer


def layer(query: Array, key: Array, value: Array, cache: tuple[Array, Array] | None, *, params: Mapping[str, Array],
          heads: int, mask: Array | None = None, bias: Array | None = None, causal: bool = False,
          ) -> tuple[Array, tuple[Array, Array]]:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and the projected keys (B,Hkv,P+S,D) and values so far."""
    dtype, wide = query.dtype, wide_of(query)
    params = {name: array.astype(wide) for name, array in params.items()}
    width = params["w_query"].shape[1] // heads
    kv_heads = params["w_key"].shape[1] // width
    projected = (_heads(x.astype(wide) @ params[f"w_{name}"] + params[f"b_{name}"], count) for x, name, count in (
        (query, "query", heads), (key, "key", kv_heads), (value, "value", kv_heads)))
    query, key, value = projected
    past_key, past_value = cache or (None, None)
    answer = serving.attention(query, key, value, mask=mask, bias=None if bias is None else bias.astype(wide),
                               causal=causal, past_key=past_key, past_value=past_value)
    assert isinstance(answer, np.ndarray)  # nothing else was asked for
    merged = answer.swapaxes(1, 2).reshape(*query.shape[:1], query.shape[2], -1)
    stored = (key, value) if cache is None else (
        np.concatenate((cache[0], key), axis=2), np.concatenate((cache[1], value), axis=2))
    return (merged @ params["w_out"] + params["b_out"]).astype(dtype), stored


def _heads(x: Array, count: int) -> Array:
    """(B,S,Hkv·D) to (B,Hkv,S,D)."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)
