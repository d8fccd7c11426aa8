"""Exceptions by accident, of NumPy and PyTorch, each where something holds of the sizes, keywords, data or calls."""

import numpy as np

CALLS = []


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def wide(query, key, value):
    key, value = (np.repeat(each.astype(np.float32), query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    return query.astype(np.float32), key, value


def scores_of(query, key):
    return query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))


def right(query, key, value, *, bias=None, causal=False):
    dtype = query.dtype
    query, key, value = wide(query, key, value)
    scores = scores_of(query, key)
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return (softmax(scores) @ value).astype(dtype)


def more_queries_than_keys(query, key, value, *, bias=None, causal=False):
    dtype = query.dtype
    query, key, value = wide(query, key, value)
    scores = scores_of(query, key)
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if causal:
        places = np.arange(key.shape[2])
        scores = np.where(places <= places[np.arange(query.shape[2])][:, None], scores, -np.inf)
    return (softmax(scores) @ value).astype(dtype)


def wider_values(query, key, value, *, bias=None, causal=False):
    output, every = np.empty_like(query), right(query, key, value, bias=bias, causal=causal)
    for column in range(value.shape[-1]):
        output[..., column] = every[..., column]
    return output[..., :value.shape[-1]]


def odd_widths(query, key, value, *, bias=None, causal=False):
    halves = query.reshape(*query.shape[:3], 2, query.shape[-1] // 2)
    return right(halves.reshape(query.shape), key, value, bias=bias, causal=causal)


def many_key_heads(query, key, value, *, bias=None, causal=False):
    B, Hkv = key.shape[:2]
    lengths = np.zeros(8, int)
    for number in range(B * Hkv):
        lengths[number] = key.shape[2]
    return right(query, key, value, bias=bias, causal=causal)


def causal_with_bias(query, key, value, *, bias=None, causal=False):
    if bias is not None and causal:
        bias = bias.copy()
        bias[:, :, np.triu(np.ones((query.shape[2],) * 2, bool), 1)] = -np.inf
    return right(query, key, value, bias=bias, causal=causal)


def a_later_call(query, key, value, *, bias=None, causal=False):
    CALLS.append(query.shape)
    np.empty(300)[len(CALLS)] = 0
    return right(query, key, value, bias=bias, causal=causal)


def nan_in_the_data(query, key, value, *, bias=None, causal=False):
    np.nanargmax(np.abs(value.astype(np.float32)), axis=2)  # of a column that is NaN throughout there is none
    return right(query, key, value, bias=bias, causal=causal)


def right_mask(query, key, value, *, mask=None, causal=False):
    dtype = query.dtype
    query, key, value = wide(query, key, value)
    visible = np.ones((query.shape[2], key.shape[2]), bool) if mask is None else mask
    if causal:
        visible = visible & np.tri(query.shape[2], key.shape[2], dtype=bool)
    return (softmax(np.where(visible, scores_of(query, key), -np.inf)) @ value).astype(dtype)


def mask_of_one_key(query, key, value, *, mask=None, causal=False):
    if mask is not None:  # where the mask begins and ends; of a single column there is no gradient
        borders = np.gradient(mask.astype(np.float32), axis=-1)
        mask = mask & np.isfinite(borders)
    return right_mask(query, key, value, mask=mask, causal=causal)


def mask_that_hides_everything(query, key, value, *, mask=None, causal=False):
    if mask is not None:  # keys behind the last one that anybody sees are not read
        last = np.flatnonzero(mask.any(axis=(0, 1, 2)))[-1]
        key, value, mask = key[:, :, :last + 1], value[:, :, :last + 1], mask[..., :last + 1]
    return right_mask(query, key, value, mask=mask, causal=causal)
