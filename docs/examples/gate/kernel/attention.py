"""Attention by blocks of keys, with the softmax kept as it goes: one pass, no (T,S) array. It has a bug."""

from __future__ import annotations

import numpy as np

BLOCK = 16


def attend(query, key, value, *, mask=None, causal=False):
    """query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) -> (B,H,T,Dv); mask (B,H,T,S), True = may attend."""
    B, H, T, D = query.shape
    S = key.shape[2]
    largest = np.zeros((B, H, T, 1), query.dtype)  # the bug: a row whose logits are all far below 0 has no weights left
    total = np.zeros((B, H, T, 1), query.dtype)
    output = np.zeros((B, H, T, value.shape[3]), query.dtype)
    for start in range(0, S, BLOCK):
        keys = slice(start, start + BLOCK)
        logits = query @ key[:, :, keys].swapaxes(-1, -2) * query.dtype.type(D**-0.5)
        if causal:
            logits = np.where(np.arange(S)[keys] <= np.arange(T)[:, None], logits, -np.inf)
        if mask is not None:
            logits = np.where(mask[..., keys], logits, -np.inf)
        new = np.maximum(largest, logits.max(axis=-1, keepdims=True))
        safe = np.where(np.isneginf(new), 0, new)
        weights, rescale = np.exp(logits - safe), np.exp(largest - safe)
        output = output * rescale + weights @ value[:, :, keys]
        total = total * rescale + weights.sum(axis=-1, keepdims=True)
        largest = new
    return output / np.where(total == 0, 1, total)


attend.dtypes = ["float32", "float64"]
attend.grouped = False
attend.conventions = {"hidden_row": "zeros"}
