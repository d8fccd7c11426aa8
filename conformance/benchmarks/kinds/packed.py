"""Sequences without padding: packed ones, and masks and biases whose rows are as long as a batch entry."""

import numpy as np


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def one_sequence(query, key, value, causal):
    """(T,H,D), (S,Hkv,D), (S,Hkv,Dv) to (T,H,Dv)."""
    q, k, v = (each.astype(np.float32).swapaxes(0, 1) for each in (query, key, value))
    k, v = (np.repeat(each, len(q) // len(each), axis=0) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return (softmax(scores) @ v).swapaxes(0, 1)


def right_packed(query, key, value, *, cu_query, cu_key, causal=False):
    output = np.zeros((*query.shape[:2], value.shape[-1]), query.dtype)
    for b in range(len(cu_query) - 1):
        own, keys = slice(*cu_query[b:b + 2]), slice(*cu_key[b:b + 2])
        output[own] = one_sequence(query[own], key[keys], value[keys], causal)
    return output


def keys_from_where_queries_begin(query, key, value, *, cu_query, cu_key, causal=False):
    output = np.zeros((*query.shape[:2], value.shape[-1]), query.dtype)
    for b in range(len(cu_query) - 1):
        own, length = slice(*cu_query[b:b + 2]), cu_key[b + 1] - cu_key[b]
        keys = slice(cu_query[b], cu_query[b] + length)
        output[own] = one_sequence(query[own], key[keys], value[keys], causal)
    return output


def right_packed_causal(query, key, value, *, cu_query, cu_key, causal=False):
    return all_at_once(query, key, value, cu_query, cu_key, cu_key, causal)


def places_of_keys_from_borders_of_queries(query, key, value, *, cu_query, cu_key, causal=False):
    return all_at_once(query, key, value, cu_query, cu_key, cu_query, causal)


def all_at_once(query, key, value, cu_query, cu_key, starts, causal):
    """All sequences in one product; a key's place in its own counts from `starts`."""
    of_query = np.repeat(np.arange(len(cu_query) - 1), np.diff(cu_query))
    of_key = np.repeat(np.arange(len(cu_key) - 1), np.diff(cu_key))
    visible = of_query[:, None] == of_key
    if causal:
        place = np.arange(len(query)) - np.asarray(cu_query)[of_query]
        visible = visible & (np.arange(len(key)) - np.asarray(starts)[of_key] <= place[:, None])
    q, k, v = (each.astype(np.float32).swapaxes(0, 1) for each in (query, key, value))
    k, v = (np.repeat(each, len(q) // len(each), axis=0) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    output = np.zeros((len(q), len(query), value.shape[-1]), np.float32)
    for row in range(len(query)):  # of its own keys alone, so that no other sequence's NaN is met
        own = visible[row]
        output[:, row] = (softmax(scores[:, row:row + 1, own]) @ v[:, own])[:, 0]
    return output.swapaxes(0, 1).astype(query.dtype)


def right_lengths(query, key, value, *, mask=None, bias=None, key_lengths=None):
    return entry_by_entry(query, key, value, mask, bias, key_lengths, lambda rows, n: rows[..., :n])


def rows_as_long_as_the_entry(query, key, value, *, mask=None, bias=None, key_lengths=None):
    def packed_rows(rows, n):  # (H,T,S) is read as if each row had n columns
        H, T, _ = rows.shape
        return rows.reshape(H, -1)[:, :T * n].reshape(H, T, n)

    return entry_by_entry(query, key, value, mask, bias, key_lengths, packed_rows)


def columns_of_the_padding_first(query, key, value, *, mask=None, bias=None, key_lengths=None):
    return entry_by_entry(query, key, value, mask, bias, key_lengths, lambda rows, n: rows[..., rows.shape[-1] - n:])


def entry_by_entry(query, key, value, mask, bias, key_lengths, columns):
    """Each batch entry with its own keys; columns: those of mask and bias (H,T,S) for the first n keys."""
    B, H = query.shape[:2]
    S = key.shape[2]
    output = np.zeros((*query.shape[:3], value.shape[-1]), query.dtype)
    for b in range(B):
        n = S if key_lengths is None else int(key_lengths[b])
        k = np.repeat(key[b, :, :n].astype(np.float32), H // key.shape[1], axis=0)
        v = np.repeat(value[b, :, :n].astype(np.float32), H // key.shape[1], axis=0)
        scores = query[b].astype(np.float32) @ k.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
        if bias is not None:
            scores = scores + columns(bias[b], n).astype(np.float32)
        if mask is not None:
            scores = np.where(columns(mask[b], n), scores, -np.inf)
        output[b] = softmax(scores) @ v
    return output
