"""Attention in one pass over blocks of keys, for a block of queries at a time, as flash kernels compute it."""

import numpy as np

ROWS, KEYS = 16, 32


def attend(query, key, value, *, mask=None, causal=False, scale=None, return_lse=False):
    B, H, T, D = query.shape
    _, Hkv, S, Dv = value.shape
    wide = np.promote_types(query.dtype, np.float32)
    query_scale = wide.type(1 / np.sqrt(D) if scale is None else scale)
    q = query.astype(wide) * query_scale
    k = np.repeat(key.astype(wide), H // Hkv, axis=1)
    v = np.repeat(value.astype(wide), H // Hkv, axis=1)
    output = np.zeros((B, H, T, Dv), wide)
    lse = np.full((B, H, T), -np.inf, wide)
    diagonal = S - T  # the last query sees the last key
    for first in range(0, T, ROWS):
        last = min(first + ROWS, T)
        rows = np.arange(first, last)[:, None]
        top = np.full((B, H, last - first, 1), -np.inf, wide)
        total = np.zeros_like(top)
        sums = np.zeros((B, H, last - first, Dv), wide)
        for start in range(0, S, KEYS):
            stop = min(start + KEYS, S)
            if causal and start > last - 1 + diagonal:
                break
            scores = q[:, :, first:last] @ k[:, :, start:stop].swapaxes(-1, -2)
            if mask is not None:
                scores = np.where(mask[:, :, first:last, start:stop], scores, -np.inf)
            if causal and stop - 1 > first + diagonal:
                scores = np.where(np.arange(start, stop) <= rows + diagonal, scores, -np.inf)
            largest = np.maximum(top, scores.max(axis=-1, keepdims=True))
            shift = np.where(np.isneginf(largest), 0, largest)
            weights = np.exp(scores - shift)
            decay = np.exp(top - shift)
            total = total * decay + weights.sum(axis=-1, keepdims=True)
            sums = sums * decay + weights @ v[:, :, start:stop]
            top = largest
        empty = total == 0
        total = np.where(empty, 1, total)
        output[:, :, first:last] = sums / total
        lse[:, :, first:last] = np.where(empty, -np.inf, top + np.log(total))[..., 0]
    output = output.astype(query.dtype)
    return (output, lse) if return_lse else output


attend.conventions = {"causal_alignment": "bottom_right", "mask_with_causal": "both", "hidden_row": "zeros",
                      "lse_base": "natural", "lse_of_hidden_row": "minus_infinity"}
