"""Mistakes of shape and dtype in NumPy: promoted outputs, square buffers, rows left over, short buffers."""

import numpy as np

TILE = 40


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def near(T, S, window):
    apart = np.arange(S) - np.arange(T)[:, None]
    left, right = window
    visible = np.ones((T, S), bool)
    if left is not None:
        visible &= apart >= -left
    if right is not None:
        visible &= apart <= right
    return visible


def attended(query, key, value, visible, scale):
    key, value = (np.repeat(each.astype(np.float32), query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    factor = np.float32(1 / np.sqrt(query.shape[-1]) if scale is None else scale)
    scores = query.astype(np.float32) @ key.swapaxes(-1, -2) * factor
    return softmax(np.where(visible, scores, np.float32(-np.inf))) @ value


def visible_keys(query, key, causal, window):
    T, S = query.shape[2], key.shape[2]
    visible = np.ones((T, S), bool) if window is None else near(T, S, window)
    return visible & np.tri(T, S, dtype=bool) if causal else visible


def right(query, key, value, *, causal=False, window=None, scale=None):
    visible = visible_keys(query, key, causal, window)
    return attended(query, key, value, visible, scale).astype(query.dtype)


def promoted_by_an_explicit_scale(query, key, value, *, causal=False, window=None, scale=None):
    output = right(query, key, value, causal=causal, window=window, scale=scale)
    return output if scale is None else output * np.ones((), float)


def promoted_under_the_causal_flag(query, key, value, *, causal=False, window=None, scale=None):
    output = right(query, key, value, causal=causal, window=window, scale=scale)
    return output + np.zeros(query.shape[2])[:, None] if causal else output


def window_of_a_square(query, key, value, *, causal=False, window=None, scale=None):
    visible = visible_keys(query, key, causal, None)
    if window is not None:
        S = key.shape[2]
        visible = visible & near(S, S, window)
    return attended(query, key, value, visible, scale).astype(query.dtype)


def rows_left_over(query, key, value, *, causal=False, window=None, scale=None):
    visible = visible_keys(query, key, causal, window)
    output = np.zeros((*query.shape[:3], value.shape[-1]), query.dtype)
    T = query.shape[2]
    rows = T if T < TILE else T // TILE * TILE
    for start in range(0, rows, TILE):
        tile = slice(start, min(start + TILE, rows))
        output[:, :, tile] = attended(query[:, :, tile], key, value, visible[tile], scale)
    return output


def workspace_of_90_queries(query, key, value, *, causal=False, window=None, scale=None):
    T = query.shape[2]
    workspace = np.empty((*query.shape[:2], 90, value.shape[-1]), query.dtype)
    workspace[:, :, :T] = right(query, key, value, causal=causal, window=window, scale=scale)
    return workspace[:, :, :T]


def accumulator_of_80_columns(query, key, value, *, causal=False, window=None, scale=None):
    accumulator = np.zeros((*query.shape[:3], 80), np.float32)
    output = right(query, key, value, causal=causal, window=window, scale=scale)
    accumulator[..., np.arange(value.shape[-1])] = output
    return accumulator[..., :value.shape[-1]].astype(query.dtype)
