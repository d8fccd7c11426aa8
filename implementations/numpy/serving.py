"""Scaled dot-product attention as servers call it: with a past, and with lengths of each batch entry.

Past keys and values stand before the new ones, and query i stands at place P + i, P being their number. Head h lowers
the logit of a key by alibi_slopes[h] times its distance from that place.

Of batch entry b only the first key_lengths[b] keys are seen, and rows from query_lengths[b] on are zeros. Head h has
one more logit, sinks[h], which has no value. return_lse adds the logarithm of the sum of the exponentials of every row,
-inf where it sees no key. Query i sees key j only if query_segments[b, i] is key_segments[b, j].
"""

from __future__ import annotations

import numpy as np

from .attention import Array, repeated, scaled, softmax, wide_of


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
              causal: bool = False, scale: float | None = None, window: tuple[int | None, int | None] | None = None,
              softcap: float | None = None, key_lengths: Array | None = None, query_lengths: Array | None = None,
              sinks: Array | None = None, return_lse: bool = False, return_weights: bool = False,
              past_key: Array | None = None, past_value: Array | None = None, alibi_slopes: Array | None = None,
              query_segments: Array | None = None, key_segments: Array | None = None,
              ) -> Array | tuple[Array, ...]:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv); and, if asked for, weights (B,H,T,P+S), and a
    log-sum-exp (B,H,T). past_key (B,Hkv,P,D), past_value (B,Hkv,P,Dv), alibi_slopes (H,) or (B,H).
    query_segments (B,T), key_segments (B,P+S).
    """
    dtype, new = query.dtype, key.shape[2]
    query, key, value = widened(query, key, value, past_key, past_value)
    wide, start = query.dtype, key.shape[2] - new

    logits = scaled(query, key, scale, softcap)
    if bias is not None:
        logits = logits + bias.astype(wide)
    if alibi_slopes is not None:
        logits = sloped(logits, alibi_slopes, start)
    visible = near(query.shape[2], key.shape[2], window or (None, None), start)
    if causal:
        visible = visible & near(query.shape[2], key.shape[2], (None, 0), start)
    if window is not None:  # a rolling cache may hold anything where no window reaches any more
        value = np.where(np.asarray(visible.any(axis=0))[:, None], value, wide.type(0))
    if mask is not None:
        visible = visible & mask
    if key_lengths is not None:
        own = within(key_lengths, key.shape[2])  # 0 times NaN would be NaN
        visible, value = visible & own[:, None, None], np.where(own[:, None, :, None], value, wide.type(0))
    if query_segments is not None and key_segments is not None:
        same = query_segments[:, :, None] == key_segments[:, None]
        visible, value = visible & same[:, None], np.where(same.any(axis=1)[:, None, :, None], value, wide.type(0))
    logits = np.where(visible, logits, wide.type(-np.inf))
    if sinks is not None:
        logits = with_sinks(logits, sinks)
    weights = softmax(logits)[..., :key.shape[2]]
    output = weights @ value
    if query_lengths is not None:
        output = np.where(within(query_lengths, query.shape[2])[:, None, :, None], output, wide.type(0))
    more = [weights.astype(dtype)] if return_weights else []
    more += [log_sum_exp(logits)] if return_lse else []
    return (output.astype(dtype), *more) if more else output.astype(dtype)


def widened(query: Array, key: Array, value: Array, past_key: Array | None, past_value: Array | None,
            ) -> tuple[Array, Array, Array]:
    """(B,H,T,D), (B,H,P+S,D) and (B,H,P+S,Dv) in float32 or wider: keys behind their past, one for each query head."""
    if past_key is not None and past_value is not None:
        key, value = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
    return query.astype(wide_of(query)), repeated(key, query), repeated(value, query)


def sloped(logits: Array, slopes: Array, start: int) -> Array:
    """(B,H,T,S), each logit less its distance times the slope of its head, slopes (H,) or (B,H)."""
    distance = np.abs(ahead(logits.shape[2], logits.shape[3], start)).astype(logits.dtype)
    lowered: Array = logits - slopes.astype(logits.dtype)[..., None, None] * distance
    return lowered


def with_sinks(logits: Array, sinks: Array) -> Array:
    """(B,H,T,S) to (B,H,T,S+1): one more logit for each head, sinks (H,)."""
    sink = np.broadcast_to(sinks.astype(logits.dtype)[:, None, None], (*logits.shape[:3], 1))
    return np.concatenate([logits, sink], axis=-1)


def ahead(T: int, S: int, start: int) -> Array:
    """(T,S): how far each key lies ahead of a query, the first of which stands at `start`."""
    return np.arange(S) - np.arange(T)[:, None] - start


def near(T: int, S: int, window: tuple[int | None, int | None], start: int) -> Array:
    """(T,S): the keys from so far before each query to so far behind it; None is no bound."""
    left, right = window
    distance = ahead(T, S, start)
    return (distance >= (-S - T if left is None else -left)) & (distance <= (S + T if right is None else right))


def log_sum_exp(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T): the largest logit is taken off before the exponential and added after the logarithm."""
    largest = logits.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0).astype(logits.dtype)
    with np.errstate(divide="ignore"):
        found: Array = (shift + np.log(np.exp(logits - shift).sum(axis=-1, keepdims=True)))[..., 0]
    return found


def within(lengths: Array, length: int) -> Array:
    """(B, length): the places below the length of each batch entry."""
    return np.arange(length) < lengths[:, None]
