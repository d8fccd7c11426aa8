"""`torch.nn.attention.bias`: the two causal biases that go where a mask goes, one for each diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention

Tensor = Any  # torch is not seen by mypy


def lower_right(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
                scale: float | None = None) -> Tensor:
    """The diagonal ends at the last query and the last key. Takes the place of a mask, so there is none beside it."""
    return _attend(query, key, value, causal_lower_right if causal else None, scale)


def upper_left(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
               scale: float | None = None) -> Tensor:
    """The diagonal starts at the first query and the first key."""
    return _attend(query, key, value, causal_upper_left if causal else None, scale)


def lower_right_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
                              scale: float | None = None) -> Tensor:
    """As `lower_right`, recording for a backward pass."""
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return _attend(query, key, value, causal_lower_right if causal else None, scale)


def upper_left_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
                             scale: float | None = None) -> Tensor:
    """As `upper_left`, recording for a backward pass."""
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return _attend(query, key, value, causal_upper_left if causal else None, scale)


def _attend(query: Tensor, key: Tensor, value: Tensor, bias: Callable[[int, int], Tensor] | None,
            scale: float | None) -> Tensor:
    attn_mask = bias(query.shape[2], key.shape[2]) if bias else None
    with torch.set_grad_enabled(query.requires_grad):
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, scale=scale,
                                            enable_gqa=key.shape[1] != query.shape[1])
