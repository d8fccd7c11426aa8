"""A past before the new keys, together with windows and lengths; and what a window has left behind."""

import numpy as np

CHUNK, TILE = 48, 24


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def join_past(key, value, past_key, past_value):
    """Keys and values behind their past, and how many are past."""
    if past_key is None:
        return key.astype(np.float32), value.astype(np.float32), 0
    return (np.concatenate([past_key, key], axis=2).astype(np.float32),
            np.concatenate([past_value, value], axis=2).astype(np.float32), past_key.shape[2])


def scores_of(query, key):
    key = np.repeat(key, query.shape[1] // key.shape[1], axis=1)
    return query.astype(np.float32) @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))


def in_window(place, slot, window):
    left, right = window or (None, None)
    near = np.ones(np.broadcast_shapes(place.shape, slot.shape), bool)
    if left is not None:
        near = near & (slot >= place - left)
    if right is not None:
        near = near & (slot <= place + right)
    return near


def values_of(weights, value, seen):
    """(B,H,T,S) times (B,Hkv,S,Dv). seen (B,Hkv or 1,S): values that no query sees may hold anything."""
    value = np.where(seen[..., None], value, 0)
    return weights @ np.repeat(value, weights.shape[1] // value.shape[1], axis=1)


def right_window(query, key, value, *, causal=False, window=None, past_key=None, past_value=None):
    return windowed(query, key, value, causal, window, past_key, past_value, lambda slot: slot)


def window_from_the_chunk(query, key, value, *, causal=False, window=None, past_key=None, past_value=None):
    return windowed(query, key, value, causal, window, past_key, past_value,
                    lambda slot: slot % CHUNK)  # of keys behind the first chunk of the past


def windowed(query, key, value, causal, window, past_key, past_value, past_slot):
    dtype = query.dtype
    key, value, P = join_past(key, value, past_key, past_value)
    scores = scores_of(query, key)
    place, slot = P + np.arange(query.shape[2])[:, None], np.arange(key.shape[2])
    counted = np.where(slot < P, past_slot(slot), slot)
    visible = in_window(place, counted, window)
    if causal:
        visible = visible & (slot <= place)
    weights = softmax(np.where(visible, scores, -np.inf))
    seen = visible.any(axis=0)[None, None]
    return values_of(weights, value, seen).astype(dtype)


def chunks_before_the_last_query_skipped(query, key, value, *, causal=False, window=None, past_key=None,
                                         past_value=None):
    dtype = query.dtype
    key, value, P = join_past(key, value, past_key, past_value)
    T = query.shape[2]
    first = 0
    if P and window is not None and window[0] is not None:  # as the last query sees it, not the first
        first = max(0, P + T - 1 - window[0]) // CHUNK * CHUNK
        first = min(first, P)
    key, value = key[:, :, first:], value[:, :, first:]
    place, slot = P + np.arange(T)[:, None], first + np.arange(key.shape[2])
    visible = in_window(place, slot, window)
    if causal:
        visible = visible & (slot <= place)
    weights = softmax(np.where(visible, scores_of(query, key), -np.inf))
    return values_of(weights, value, visible.any(axis=0)[None, None]).astype(dtype)


def right_query_lengths(query, key, value, *, causal=False, query_lengths=None, past_key=None, past_value=None):
    return tiled(query, key, value, causal, query_lengths, past_key, past_value, counts_past=False)


def tiles_behind_the_past_left_out(query, key, value, *, causal=False, query_lengths=None, past_key=None,
                                   past_value=None):
    return tiled(query, key, value, causal, query_lengths, past_key, past_value, counts_past=True)


def tiled(query, key, value, causal, query_lengths, past_key, past_value, counts_past):
    """Tiles of queries, which end where no batch entry has further queries."""
    B, H, T, _ = query.shape
    dtype = query.dtype
    key, value, P = join_past(key, value, past_key, past_value)
    lengths = np.full(B, T) if query_lengths is None else np.asarray(query_lengths)
    output = np.zeros((B, H, T, value.shape[-1]), np.float32)
    for start in range(0, T, TILE):
        place = start + P if counts_past and start else start
        if place >= lengths.max():
            break
        rows = np.arange(start, min(start + TILE, T))
        scores = scores_of(query[:, :, rows], key)
        if causal:
            scores = np.where(np.arange(key.shape[2]) <= P + rows[:, None], scores, -np.inf)
        output[:, :, rows] = values_of(softmax(scores), value, np.ones((1, 1, key.shape[2]), bool))
    own = np.arange(T) < lengths[:, None]
    return np.where(own[:, None, :, None], output, 0).astype(dtype)


def what_the_window_left_times_zero(query, key, value, *, causal=False, window=None, past_key=None, past_value=None):
    dtype = query.dtype
    key, value, P = join_past(key, value, past_key, past_value)
    place, slot = P + np.arange(query.shape[2])[:, None], np.arange(key.shape[2])
    visible = in_window(place, slot, window)
    if causal:
        visible = visible & (slot <= place)
    weights = softmax(np.where(visible, scores_of(query, key), -np.inf))
    everything = np.ones((1, 1, key.shape[2]), bool)  # what no window holds any more is read, and weighs nothing
    return values_of(weights, value, everything).astype(dtype)
