"""Attention over packed sequences and pages of codes in PyTorch: codes are dequantised, and each sequence attends by
F.scaled_dot_product_attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (so PyTorch's documentation calls it)
from torch import Tensor


def packed_by_sequence(query: Tensor, key: Tensor, value: Tensor, *, cu_query: Tensor, cu_key: Tensor,
                       causal: bool = False, scale: float | None = None, key_scale: Tensor | None = None,
                       value_scale: Tensor | None = None) -> Tensor:
    """Query (Nq,H,D), codes key (Nk,Hkv,D) and value (Nk,Hkv,Dv) of sequences one behind the other, and scales (B,Hkv),
    one for each sequence and head, to (Nq,H,Dv).
    """
    lengths = cu_key.diff().to(torch.int64)
    key_scale, value_scale = (None if each is None else each.repeat_interleave(lengths, 0)
                              for each in (key_scale, value_scale))
    return packed_by_token(query, key, value, cu_query=cu_query, cu_key=cu_key, causal=causal, scale=scale,
                           key_scale=key_scale, value_scale=value_scale)


def packed_by_token(query: Tensor, key: Tensor, value: Tensor, *, cu_query: Tensor, cu_key: Tensor,
                    causal: bool = False, scale: float | None = None, key_scale: Tensor | None = None,
                    value_scale: Tensor | None = None) -> Tensor:
    """The same with scales (Nk,Hkv), one for each token."""
    keys, values = _dequantise(query, key, key_scale), _dequantise(query, value, value_scale)
    output = query.new_zeros(*query.shape[:2], value.shape[2])
    borders = list(zip(cu_query.tolist(), cu_query.tolist()[1:], cu_key.tolist(), cu_key.tolist()[1:]))
    for first, end, first_key, end_key in borders:
        if end > first and end_key > first_key:
            queries, own_keys, own_values = (each.transpose(0, 1)[None] for each in (
                query[first:end], keys[first_key:end_key], values[first_key:end_key]))
            # a mask in the place of is_causal, beside which the CPU flash kernel takes no scale of 0 or less
            mask = torch.ones(end - first, end_key - first_key, dtype=torch.bool).tril() if causal else None
            output[first:end] = _attend(queries, own_keys, own_values, mask, scale)[0].transpose(0, 1)
    return output


def paged_by_head(query: Tensor, key: Tensor, value: Tensor, *, block_table: Tensor, key_lengths: Tensor,
                  causal: bool = False, scale: float | None = None, key_scale: Tensor | None = None,
                  value_scale: Tensor | None = None) -> Tensor:
    """Query (B,H,T,D), codes key (pages,page,Hkv,D) and value (pages,page,Hkv,Dv), scales (Hkv,), to (B,H,T,Dv)."""
    return _attend_to_pages(query, _dequantise(query, key, key_scale), _dequantise(query, value, value_scale),
                            block_table, key_lengths, causal=causal, scale=scale)


def paged_by_token(query: Tensor, key: Tensor, value: Tensor, *, block_table: Tensor, key_lengths: Tensor,
                   causal: bool = False, scale: float | None = None, key_scale: Tensor | None = None,
                   value_scale: Tensor | None = None, key_zero: Tensor | None = None,
                   value_zero: Tensor | None = None) -> Tensor:
    """The same with scales and zero points (pages,page,Hkv), one for each slot."""
    return _attend_to_pages(query, _dequantise(query, key, key_scale, key_zero),
                            _dequantise(query, value, value_scale, value_zero), block_table, key_lengths,
                            causal=causal, scale=scale)


def paged_by_page(query: Tensor, key: Tensor, value: Tensor, *, block_table: Tensor, key_lengths: Tensor,
                  causal: bool = False, scale: float | None = None, key_scale: Tensor | None = None,
                  value_scale: Tensor | None = None) -> Tensor:
    """The same with scales (pages,Hkv), one for each page."""
    key_scale, value_scale = (None if each is None else each[:, None] for each in (key_scale, value_scale))
    return _attend_to_pages(query, _dequantise(query, key, key_scale), _dequantise(query, value, value_scale),
                            block_table, key_lengths, causal=causal, scale=scale)


def _dequantise(query: Tensor, codes: Tensor, scales: Tensor | None, zeros: Tensor | None = None) -> Tensor:
    """Codes (…,Hkv,D), less zero points and times scales whose last axis is that of the heads."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    numbers = codes.to(wide) if zeros is None else codes.to(wide) - zeros.to(wide)[..., None]
    return numbers if scales is None else numbers * scales.to(wide)[..., None]


def _attend_to_pages(query: Tensor, keys: Tensor, values: Tensor, block_table: Tensor, key_lengths: Tensor, *,
                     causal: bool, scale: float | None) -> Tensor:
    """Query (B,H,T,D), pools of numbers (pages,page,Hkv,D) and (pages,page,Hkv,Dv), to (B,H,T,Dv). What the table names
    beyond a length is not read, and a slot there may hold NaN.
    """
    page = keys.shape[1]
    places = torch.arange(block_table.shape[1] * page, device=query.device)
    is_held = places < key_lengths[:, None]
    pages = torch.where(is_held, block_table[:, places // page].to(torch.int64), 0)
    own_keys, own_values = (pool[pages, places % page].transpose(1, 2).masked_fill(~is_held[:, None, :, None], 0)
                            for pool in (keys, values))
    mask = is_held[:, None, None].expand(-1, 1, query.shape[2], -1)
    if causal:
        mask = mask & (places <= torch.arange(query.shape[2], device=query.device)[:, None])
    return _attend(query, own_keys, own_values, mask, scale)


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Query (B,H,T,D), numbers (B,Hkv,S,D) and (B,Hkv,S,Dv), a mask (B,1,T,S) or (T,S), to (B,H,T,Dv)."""
    output = F.scaled_dot_product_attention(query.to(keys.dtype), keys, values, attn_mask=mask, scale=scale,
                                            enable_gqa=keys.shape[1] != query.shape[1])
    return output.to(query.dtype)
