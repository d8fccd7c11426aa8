"""Attention of a decoding step: a past before the new keys, lengths of each batch entry, and documents side by side."""

import numpy as np


def attend(query, key, value, *, mask=None, causal=False, window=None, key_lengths=None, past_key=None,
           past_value=None, query_segments=None, key_segments=None):
    B, H, T, D = query.shape
    P = 0
    if past_key is not None:
        P = past_key.shape[2]
        key = np.concatenate([past_key, key], axis=2)
        value = np.concatenate([past_value, value], axis=2)
    Hkv, S = key.shape[1:3]
    wide = np.promote_types(query.dtype, np.float32)
    k = np.repeat(key.astype(wide), H // Hkv, axis=1)
    v = np.repeat(value.astype(wide), H // Hkv, axis=1)
    logits = np.einsum("bhtd,bhsd->bhts", query.astype(wide), k) / np.sqrt(wide.type(D))
    place, slot = P + np.arange(T)[:, None], np.arange(S)
    visible = np.ones((B, 1, T, S), bool)
    if causal:
        visible &= slot <= place
    if window is not None:
        left, right = window
        if left is not None:
            visible &= place - slot <= left
        if right is not None:
            visible &= slot - place <= right
    if key_lengths is not None:
        own = slot < key_lengths[:, None]
        visible &= own[:, None, None]
        v = np.where(own[:, None, :, None], v, 0)  # a cache may hold NaN where nothing was written
    if query_segments is not None:
        visible &= query_segments[:, None, :, None] == key_segments[:, None, None, :]
    if mask is not None:
        visible = visible & mask
    logits = np.where(visible, logits, -np.inf)
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    output = np.einsum("bhts,bhsd->bhtd", weights, v) / np.where(total == 0, 1, total)
    return output.astype(query.dtype)


attend.dtypes = ["float64", "float32"]
attend.conventions = {"causal_alignment": "top_left", "mask_with_causal": "both", "hidden_row": "zeros"}
