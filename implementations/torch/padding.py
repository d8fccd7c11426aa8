"""`torch.nn.MultiheadAttention` with `key_padding_mask`, (B,S): True hides a key from all heads and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .mha import attn_mask, module_with

Tensor = Any  # torch is not seen by mypy


def mha(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,
        causal: bool = False, return_weights: bool = False) -> Tensor:
    """Asked for weights. Training mode, with gradient."""
    module = module_with(query, params, heads).train()
    output, weights = module(query, key, value, **_masks(query, key, mask, causal=causal), need_weights=True,
                             average_attn_weights=False)
    return (output, weights) if return_weights else output


def mha_no_weights(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                   mask: Tensor = None, causal: bool = False) -> Tensor:
    """Not asked for weights. Training mode, with gradient."""
    module = module_with(query, params, heads).train()
    return module(query, key, value, **_masks(query, key, mask, causal=causal), need_weights=False)[0]


def mha_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                  mask: Tensor = None, causal: bool = False) -> Tensor:
    """Not asked for weights, in inference."""
    module = module_with(query, params, heads).eval()
    with torch.no_grad():
        return module(query, key, value, **_masks(query, key, mask, causal=causal), need_weights=False)[0]


def self_training(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                  mask: Tensor = None, causal: bool = False) -> Tensor:
    """One and the same tensor three times, in training."""
    return mha_no_weights(query, query, query, params=params, heads=heads, mask=mask, causal=causal)


def self_inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                   mask: Tensor = None, causal: bool = False) -> Tensor:
    """One and the same tensor three times, in inference: the fast path."""
    return mha_inference(query, query, query, params=params, heads=heads, mask=mask, causal=causal)


def _masks(query: Tensor, key: Tensor, mask: Tensor, *, causal: bool) -> dict[str, Tensor]:
    """The mask (B,H,T,S), which is the same for all heads and queries, and the causal one, as the module takes them."""
    return {"key_padding_mask": None if mask is None else ~mask[:, 0, 0],
            "attn_mask": attn_mask(query, key, None, None, causal)}
