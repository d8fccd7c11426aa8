"""A multi-head layer with four projections, as one writes it without a framework."""

import numpy as np


def layer(query, key, value, *, params, heads, mask=None, causal=False, return_weights=False):
    dtype, wide = query.dtype, np.promote_types(query.dtype, np.float32)
    w = {name: array.astype(wide) for name, array in params.items()}
    B, T, _ = query.shape
    S = key.shape[1]
    q = query.astype(wide) @ w["w_query"]
    k = key.astype(wide) @ w["w_key"]
    v = value.astype(wide) @ w["w_value"]
    if "b_query" in w:
        q = q + w["b_query"]
        k = k + w["b_key"]
        v = v + w["b_value"]
    D = q.shape[-1] // heads
    kv_heads = k.shape[-1] // D
    q = q.reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = k.reshape(B, S, kv_heads, D).transpose(0, 2, 1, 3)
    v = v.reshape(B, S, kv_heads, -1).transpose(0, 2, 1, 3)
    if kv_heads < heads:
        k = np.repeat(k, heads // kv_heads, axis=1)
        v = np.repeat(v, heads // kv_heads, axis=1)
    scores = q @ k.transpose(0, 1, 3, 2) / wide.type(D) ** 0.5
    if causal:
        scores = np.where(np.arange(S) > np.arange(T)[:, None], -np.inf, scores)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    output = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, -1) @ w["w_out"]
    if "b_out" in w:
        output = output + w["b_out"]
    output = output.astype(dtype)
    return (output, weights.astype(dtype)) if return_weights else output


layer.conventions = {"causal_alignment": "top_left", "mask_with_causal": "both", "hidden_row": "zeros"}
