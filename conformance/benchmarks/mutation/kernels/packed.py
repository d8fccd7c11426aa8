"""Attention over sequences that stand one behind the other, with the slopes of ALiBi and a sink for each head."""

import numpy as np


def attend(query, key, value, *, cu_query, cu_key, causal=False, scale=None, window=None, sinks=None,
           alibi_slopes=None, return_lse=False):
    Nq, H, D = query.shape
    Hkv, Dv = value.shape[1:]
    wide = np.promote_types(query.dtype, np.float32)
    factor = wide.type(1 / np.sqrt(D) if scale is None else scale)
    output = np.zeros((Nq, H, Dv), query.dtype)
    lse = np.full((Nq, H), -np.inf, wide)
    left, right = (None, None) if window is None else window
    for b in range(len(cu_query) - 1):
        first, last = cu_query[b], cu_query[b + 1]
        start, stop = cu_key[b], cu_key[b + 1]
        T, S = last - first, stop - start
        if T == 0 or (S == 0 and sinks is None):
            continue
        row, column = np.arange(T)[:, None] + (S - T), np.arange(S)
        hidden = np.zeros((T, S), bool)
        if causal:
            hidden |= column > row
        if left is not None:
            hidden |= column < row - left
        if right is not None:
            hidden |= column > row + right
        for h in range(H):
            head = h // (H // Hkv)
            q, k = query[first:last, h].astype(wide), key[start:stop, head].astype(wide)
            scores = q @ k.T * factor
            if alibi_slopes is not None:
                slopes = alibi_slopes if alibi_slopes.ndim == 1 else alibi_slopes[b]
                scores = scores - wide.type(slopes[h]) * np.abs(row - column)
            scores[hidden] = -np.inf
            top = scores.max(axis=-1, initial=-np.inf, keepdims=True)
            if sinks is not None:
                top = np.maximum(top, wide.type(sinks[h]))
            top = np.where(np.isneginf(top), 0, top)
            weights = np.exp(scores - top)
            total = weights.sum(axis=-1, keepdims=True)
            if sinks is not None:
                total = total + np.exp(wide.type(sinks[h]) - top)
            none = total == 0
            total[none] = 1
            output[first:last, h] = weights @ value[start:stop, head].astype(wide) / total
            lse[first:last, h] = np.where(none, -np.inf, top + np.log(total))[:, 0]
    return (output, lse) if return_lse else output


attend.dtypes = ["float64", "float32", "float16"]
attend.conventions = {"causal_alignment": "bottom_right", "hidden_row": "zeros", "lse_base": "natural",
                      "lse_of_hidden_row": "minus_infinity"}
