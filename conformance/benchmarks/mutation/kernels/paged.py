"""Attention of a server over a cache in pages: one page after the other, with a running maximum."""

import numpy as np


def attend(query, key, value, *, block_table, key_lengths, causal=False, scale=None, window=None, softcap=None,
           query_lengths=None, return_lse=False):
    B, H, T, D = query.shape
    page, Hkv, Dv = value.shape[1:]
    wide = np.promote_types(query.dtype, np.float32)
    factor = wide.type(1 / np.sqrt(D) if scale is None else scale)
    output = np.zeros((B, H, T, Dv), query.dtype)
    lse = np.full((B, H, T), -np.inf, wide)
    for b in range(B):
        keys = int(key_lengths[b])
        rows = T if query_lengths is None else int(query_lengths[b])
        place = np.arange(rows)[:, None] + keys - rows  # of each query; the last stands at the last key
        left, right = (None, None) if window is None else window
        for h in range(H):
            head = h * Hkv // H
            q = query[b, h, :rows].astype(wide) * factor
            top = np.full((rows, 1), -np.inf, wide)
            total, sums = np.zeros((rows, 1), wide), np.zeros((rows, Dv), wide)
            for number in range((keys + page - 1) // page):
                begin = number * page
                used = min(page, keys - begin)
                held = block_table[b, number]
                scores = q @ key[held, :used, head].astype(wide).T
                if softcap is not None:
                    scores = softcap * np.tanh(scores / softcap)
                column = np.arange(begin, begin + used)
                if causal:
                    scores = np.where(column > place, -np.inf, scores)
                if left is not None:
                    scores = np.where(column < place - left, -np.inf, scores)
                if right is not None:
                    scores = np.where(column > place + right, -np.inf, scores)
                largest = np.maximum(top, scores.max(axis=-1, keepdims=True))
                shift = np.where(np.isneginf(largest), 0, largest)
                weights = np.exp(scores - shift)
                decay = np.exp(top - shift)
                total = total * decay + weights.sum(axis=-1, keepdims=True)
                sums = sums * decay + weights @ value[held, :used, head].astype(wide)
                top = largest
            seen = total[:, 0] > 0
            output[b, h, :rows][seen] = sums[seen] / total[seen]
            lse[b, h, :rows][seen] = (top + np.log(np.maximum(total, 1e-30)))[seen, 0]
    return (output, lse) if return_lse else output


attend.dtypes = ["float64", "float32", "float16"]
attend.conventions = {"causal_alignment": "bottom_right", "hidden_row": "zeros", "beyond_length": "zeros",
                      "lse_base": "natural", "lse_of_hidden_row": "minus_infinity"}
