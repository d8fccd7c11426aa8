"""Attention as a decoder-only model asks for it: all scores at once."""

import numpy as np


def attend(query, key, value, *, mask=None, bias=None, causal=False, scale=None, softcap=None, window=None,
           return_weights=False):
    B, H, T, D = query.shape
    _, Hkv, S, Dv = value.shape
    group = H // Hkv
    wide = np.promote_types(query.dtype, np.float32)
    q = query.astype(wide).reshape(B, Hkv, group, T, D)
    k = key.astype(wide)[:, :, None]
    v = value.astype(wide)[:, :, None]
    if scale is None:
        scale = 1 / np.sqrt(D)
    scores = (q @ k.swapaxes(-1, -2)).reshape(B, H, T, S) * wide.type(scale)
    if softcap is not None:
        scores = np.tanh(scores / wide.type(softcap)) * wide.type(softcap)
    if bias is not None:
        scores = scores + bias.astype(wide)
    visible = seen(T, S, causal, window)
    if mask is not None:
        visible = visible & mask
    scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    output = (weights.reshape(B, Hkv, group, T, S) @ v).reshape(B, H, T, Dv).astype(query.dtype)
    if return_weights:
        return output, weights.astype(query.dtype)
    return output


def seen(T, S, causal, window):
    """(T,S): which keys each query sees; query and key 0 stand at the same place."""
    row, column = np.arange(T)[:, None], np.arange(S)
    visible = np.ones((T, S), bool)
    if causal:
        visible &= column <= row
    if window is not None:
        left, right = window
        if left is not None:
            visible &= column >= row - left
        if right is not None:
            visible &= column <= row + right
    return visible


attend.conventions = {"causal_alignment": "top_left", "mask_with_causal": "both", "hidden_row": "zeros"}
