"""Flags that other libraries have, and that do nothing here."""

import numpy as np


def attended(query, key, value, visible=None):
    key, value = (np.repeat(each.astype(np.float32), query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    scores = query.astype(np.float32) @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) @ value).astype(query.dtype)


def lower(query, key):
    return np.tri(query.shape[2], key.shape[2], dtype=bool)


def right_causal_flag(query, key, value, *, apply_causal_mask=False):
    return attended(query, key, value, lower(query, key) if apply_causal_mask else None)


def always_causal(query, key, value, *, apply_causal_mask=False):
    return attended(query, key, value, lower(query, key))


def never_causal(query, key, value, *, apply_causal_mask=False):
    return attended(query, key, value)


def right_sliding_window(query, key, value, *, sliding_window=None):
    if sliding_window is None:
        return attended(query, key, value)
    apart = np.arange(query.shape[2])[:, None] - np.arange(key.shape[2])
    return attended(query, key, value, (apart >= 0) & (apart < sliding_window))


def always_windowed(query, key, value, *, sliding_window=None):
    apart = np.arange(query.shape[2])[:, None] - np.arange(key.shape[2])
    return attended(query, key, value, np.abs(apart) < 256 if sliding_window is None else apart < sliding_window)
