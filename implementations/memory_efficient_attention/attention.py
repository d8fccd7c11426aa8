"""`memory_efficient_attention_pytorch`: plain attention and the one in chunks, as functions.

A mask is (B,S), the same for all heads and queries. So that it can differ by head, each head is put in as a batch entry
of its own, as a user of such a function would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

Tensor = Any  # torch is not seen by mypy

CHUNKS = {"q_bucket_size": 8, "k_bucket_size": 16}


def plain(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
          causal: bool = False) -> Tensor:
    """`attention`."""
    return _attend(attention, query, key, value, mask=mask, bias=bias, causal=causal)


def plain_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                        causal: bool = False) -> Tensor:
    """`attention`, recording for a backward pass."""
    return plain(*(tensor.requires_grad_() for tensor in (query, key, value)), mask=mask, bias=bias, causal=causal)


def chunked(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
            causal: bool = False) -> Tensor:
    """`memory_efficient_attention`, eight queries and sixteen keys at a time, so that short ones are chunked too."""
    return _attend(partial(memory_efficient_attention, **CHUNKS), query, key, value, mask=mask, bias=bias,
                   causal=causal)


def chunked_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                          causal: bool = False) -> Tensor:
    """In chunks, recording for a backward pass, each chunk checkpointed."""
    return chunked(*(tensor.requires_grad_() for tensor in (query, key, value)), mask=mask, bias=bias, causal=causal)


def chunked_as_given(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                     causal: bool = False) -> Tensor:
    """In chunks of the default size, 512 queries and 1024 keys."""
    return _attend(memory_efficient_attention, query, key, value, mask=mask, bias=bias, causal=causal)


def chunked_dropout_off(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                        causal: bool = False) -> Tensor:
    """In chunks, with a dropout of one half but `training=False`, where it should do nothing."""
    return _attend(partial(memory_efficient_attention, dropout=0.5, training=False, **CHUNKS), query, key, value,
                   mask=mask, bias=bias, causal=causal)


def _attend(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, bias: Tensor,
            causal: bool) -> Tensor:
    """A mask (B,H,1,S): (B,H,…) becomes (B·H,1,…)."""
    if mask is None:
        return attend(query, key, value, attn_bias=bias, causal=causal)
    B, H, T = query.shape[:3]
    query, key, value = (tensor.flatten(0, 1)[:, None] for tensor in (query, key, value))
    mask = mask[..., :1, :].expand(B, H, 1, -1).reshape(B * H, -1)
    bias = None if bias is None else bias.expand(B, H, T, -1).flatten(0, 1)[:, None]
    return attend(query, key, value, mask=mask, attn_bias=bias, causal=causal)[:, 0].unflatten(0, (B, H))
