"""Attention over packed sequences and pages of codes in JAX, op by op: scales are multiplied into logits and output,
or, where each token has its own, into the codes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def packed_by_token(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = False,
                    scale: float | None = None, key_scale: Array | None = None,
                    value_scale: Array | None = None) -> Array:
    """Query (Nq,H,D), codes key (Nk,Hkv,D) and value (Nk,Hkv,Dv) of sequences one behind the other, and scales
    (Nk,Hkv), one for each token, to (Nq,H,Dv). All tokens stand in one call; who is of which sequence is a mask.
    """
    queries, keys = jnp.arange(query.shape[0])[:, None], jnp.arange(key.shape[0])
    sequence, key_sequence = (jnp.searchsorted(borders, places, side="right") - 1
                              for borders, places in ((cu_query, queries), (cu_key, keys)))
    visible = sequence == key_sequence
    if causal:
        visible &= keys - cu_key[key_sequence] <= queries - cu_query[sequence]
    output = _attend(query.swapaxes(0, 1)[None], *_in_front(query, key, key_scale, value, value_scale),
                     visible[None, None], scale=scale)
    return output[0].swapaxes(0, 1).astype(query.dtype)


def packed_by_sequence(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = False,
                       scale: float | None = None, key_scale: Array | None = None,
                       value_scale: Array | None = None) -> Array:
    """The same with scales (B,Hkv), one for each sequence and head."""
    own = jnp.searchsorted(cu_key, jnp.arange(key.shape[0]), side="right") - 1
    key_scale, value_scale = (None if each is None else each[own] for each in (key_scale, value_scale))
    return packed_by_token(query, key, value, cu_query=cu_query, cu_key=cu_key, causal=causal, scale=scale,
                           key_scale=key_scale, value_scale=value_scale)


def paged_by_head(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                  causal: bool = False, scale: float | None = None, key_scale: Array | None = None,
                  value_scale: Array | None = None) -> Array:
    """Query (B,H,T,D), codes key (pages,page,Hkv,D) and value (pages,page,Hkv,Dv), scales (Hkv,), to (B,H,T,Dv). Codes
    attend, the scale of a head is multiplied into its logits and its output.
    """
    keys, values, visible = _gather(query, key, value, block_table, key_lengths, causal=causal)
    output = _attend(query, keys, values, visible, scale=scale, key_scale=key_scale)
    if value_scale is not None:
        output = output * _repeat(value_scale[None], query)[..., None, None]
    return output.astype(query.dtype)


def paged_by_token(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                   causal: bool = False, scale: float | None = None, key_scale: Array | None = None,
                   value_scale: Array | None = None) -> Array:
    """The same with scales (pages,page,Hkv), one for each slot, multiplied into the codes."""
    key, value = (codes.astype(_wide(query)) if each is None else codes.astype(_wide(query)) * each[..., None]
                  for codes, each in ((key, key_scale), (value, value_scale)))
    keys, values, visible = _gather(query, key, value, block_table, key_lengths, causal=causal)
    return _attend(query, keys, values, visible, scale=scale).astype(query.dtype)


def paged_by_page(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
                  causal: bool = False, scale: float | None = None, key_scale: Array | None = None,
                  value_scale: Array | None = None) -> Array:
    """The same with scales (pages,Hkv), one for each page."""
    key_scale, value_scale = (None if each is None else each[:, None] for each in (key_scale, value_scale))
    return paged_by_token(query, key, value, block_table=block_table, key_lengths=key_lengths, causal=causal,
                          scale=scale, key_scale=key_scale, value_scale=value_scale)


def _in_front(query: Array, key: Array, key_scale: Array | None, value: Array,
              value_scale: Array | None) -> tuple[Array, Array]:
    """Numbers (1,Hkv,Nk,D) and (1,Hkv,Nk,Dv) of packed codes and their scales (Nk,Hkv)."""
    wide = _wide(query)
    key, value = (codes.astype(wide) if each is None else codes.astype(wide) * each.astype(wide)[..., None]
                  for codes, each in ((key, key_scale), (value, value_scale)))
    return key.swapaxes(0, 1)[None], value.swapaxes(0, 1)[None]


def _gather(query: Array, key: Array, value: Array, block_table: Array, key_lengths: Array, *,
            causal: bool) -> tuple[Array, Array, Array]:
    """Keys (B,Hkv,S,D) and values (B,Hkv,S,Dv) of each entry out of its pages, and who is seen (B,1,T,S). Slots beyond
    a length may hold NaN, and the table may name no page there: zeros stand for them.
    """
    page = key.shape[1]
    places = jnp.arange(block_table.shape[1] * page)
    is_held = places < key_lengths[:, None]
    pages = jnp.where(is_held, block_table[:, places // page], 0)
    own = (pool[pages, places % page].astype(_wide(query)).swapaxes(1, 2) for pool in (key, value))
    keys, values = (jnp.where(is_held[:, None, :, None], each, 0) for each in own)
    visible = jnp.broadcast_to(is_held[:, None, None], (len(block_table), 1, query.shape[2], len(places)))
    if causal:
        visible &= places <= jnp.arange(query.shape[2])[:, None]
    return keys, values, visible


def _attend(query: Array, keys: Array, values: Array, visible: Array, *, scale: float | None,
            key_scale: Array | None = None) -> Array:
    """Query (B,H,T,D), numbers (B,Hkv,S,D) and (B,Hkv,S,Dv), who is seen (B,1,T,S), scales (Hkv,) of the keys, to
    (B,H,T,Dv) in the dtype of the numbers. A query that sees no key gets zeros.
    """
    highest = jax.lax.Precision.HIGHEST
    logits = jnp.einsum("bhtd,bhsd->bhts", query.astype(keys.dtype), _repeat(keys, query), precision=highest)
    logits = logits * (query.shape[-1] ** -0.5 if scale is None else scale)
    if key_scale is not None:
        logits = logits * _repeat(key_scale[None], query)[..., None, None].astype(logits.dtype)
    weights = jnp.where(visible, jax.nn.softmax(jnp.where(visible, logits, -jnp.inf), -1), 0)
    return jnp.einsum("bhts,bhsd->bhtd", weights, _repeat(values, query), precision=highest)


def _repeat(array: Array, query: Array) -> Array:
    """(B,Hkv,…) -> (B,H,…): each head of keys and values serves H / Hkv neighbouring queries."""
    return jnp.repeat(array, query.shape[1] // array.shape[1], axis=1)


def _wide(query: Array) -> Any:  # noqa: ANN401  (a dtype of JAX)
    return query.dtype if query.dtype == jnp.float64 else jnp.dtype(jnp.float32)
