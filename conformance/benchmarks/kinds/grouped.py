"""Grouped scores (B,Hkv,G,T,S), which what belongs to heads (H,) or (B,H,T,S) has to meet on the right axes."""

import numpy as np


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def grouped_scores(query, key):
    B, H, T, D = query.shape
    Hkv = key.shape[1]
    query = query.astype(np.float32).reshape(B, Hkv, H // Hkv, T, D)
    return query @ key.astype(np.float32)[:, :, None].swapaxes(-1, -2) / np.float32(np.sqrt(D))


def answered(scores, value, query):
    output = softmax(scores) @ value.astype(np.float32)[:, :, None]
    return output.reshape(*query.shape[:3], value.shape[-1]).astype(query.dtype)


def right_bias_and_mask(query, key, value, *, bias=None, mask=None):
    scores = grouped_scores(query, key)
    if bias is not None:
        scores = scores + bias.astype(np.float32).reshape(scores.shape)
    if mask is not None:
        scores = np.where(mask.reshape(scores.shape), scores, -np.inf)
    return answered(scores, value, query)


def bias_of_the_group_first(query, key, value, *, bias=None, mask=None):
    scores = grouped_scores(query, key)
    B, Hkv, G, T, S = scores.shape
    if bias is not None:  # heads are taken for (G,Hkv)
        scores = scores + bias.astype(np.float32).reshape(B, G, Hkv, T, S).swapaxes(1, 2)
    if mask is not None:
        scores = np.where(mask.reshape(scores.shape), scores, -np.inf)
    return answered(scores, value, query)


def mask_of_the_first_head_in_a_group(query, key, value, *, bias=None, mask=None):
    scores = grouped_scores(query, key)
    G = scores.shape[2]
    if bias is not None:
        scores = scores + bias.astype(np.float32).reshape(scores.shape)
    if mask is not None:
        scores = np.where(mask[:, ::G, None], scores, -np.inf)
    return answered(scores, value, query)


def bias_without_the_axis_of_groups(query, key, value, *, bias=None, mask=None):
    scores = grouped_scores(query, key)
    if bias is not None:  # (B,H,1,T,S) does not fit beside (B,Hkv,G,T,S) unless there is one group
        scores = scores + bias.astype(np.float32)[:, :, None]
    if mask is not None:
        scores = np.where(mask.reshape(scores.shape), scores, -np.inf)
    return answered(scores, value, query)


def right_sinks(query, key, value, *, sinks=None, causal=False):
    scores = grouped_scores(query, key)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if sinks is None:
        return answered(scores, value, query)
    return with_sinks(scores, sinks.reshape(scores.shape[1:3]), value, query)


def sinks_of_the_group_first(query, key, value, *, sinks=None, causal=False):
    scores = grouped_scores(query, key)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if sinks is None:
        return answered(scores, value, query)
    return with_sinks(scores, sinks.reshape(scores.shape[2], scores.shape[1]).T, value, query)


def with_sinks(scores, sinks, value, query):
    """One more logit for each head, sinks (Hkv,G), whose value is zero."""
    column = np.broadcast_to(sinks.astype(np.float32)[:, :, None, None], (*scores.shape[:-1], 1))
    nothing = np.zeros_like(value[:, :, :1])
    return answered(np.concatenate([scores, column], axis=-1), np.concatenate([value, nothing], axis=2), query)
