"""Mistakes of shape and dtype in PyTorch."""

import torch


def right(query, key, value, *, mask=None, causal=False):
    B, H, _, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    key = key.float()[:, :, None].expand(B, Hkv, H // Hkv, S, D).reshape(B, H, S, D)
    value = value.float()[:, :, None].expand(B, Hkv, H // Hkv, S, Dv).reshape(B, H, S, Dv)
    return attended(query, key, value, mask, causal)


def attended(query, key, value, mask, causal):
    T, S = query.shape[2], key.shape[2]
    scores = query.float() @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    visible = torch.ones(T, S, dtype=torch.bool)
    if causal:
        visible = visible.tril()
    if mask is not None:
        visible = visible & mask
    scores = scores.masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return (weights @ value).to(query.dtype)


def view_of_what_is_expanded(query, key, value, *, mask=None, causal=False):
    B, H, _, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    key = key.float()[:, :, None].expand(B, Hkv, H // Hkv, S, D).view(B, H, S, D)
    value = value.float()[:, :, None].expand(B, Hkv, H // Hkv, S, Dv).view(B, H, S, Dv)
    return attended(query, key, value, mask, causal)


def view_of_transposed_inputs(query, key, value, *, mask=None, causal=False):
    B, H, T, D = query.shape
    query = query.view(B * H, T, D).view(B, H, T, D)
    return right(query, key, value, mask=mask, causal=causal)


def mask_of_queries_and_queries(query, key, value, *, mask=None, causal=False):
    if causal:
        T = query.shape[2]
        lower = torch.ones(T, T, dtype=torch.bool).tril()
        mask = lower if mask is None else mask & lower
    return right(query, key, value, mask=mask)


def heads_in_a_table_of_six(query, key, value, *, mask=None, causal=False):
    heads = torch.arange(6)[torch.arange(query.shape[1])]
    return right(query[:, heads], key, value, mask=mask, causal=causal)


for function in (right, view_of_what_is_expanded, view_of_transposed_inputs, mask_of_queries_and_queries,
                 heads_in_a_table_of_six):
    function.lift = "torch"
