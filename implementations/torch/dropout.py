"""`torch.nn.functional.scaled_dot_product_attention` with `dropout_p`, and `nn.MultiheadAttention` in training.

PyTorch draws from a generator that all operations share; it is set from the seed, and what it was is restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from .mha import attn_mask, module_with

Tensor = Any


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
         causal: bool = False, scale: float | None = None, dropout_rate: float = 0.0,
         seed: int | None = None) -> Tensor:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), by the kernel that PyTorch chooses."""
    both = bias.masked_fill(~mask, float("-inf")) if mask is not None and bias is not None else None
    attn_mask = next((tensor for tensor in (both, mask, bias) if tensor is not None), None)
    younger: dict[str, Any] = {**({} if scale is None else {"scale": scale}),
                               **({"enable_gqa": True} if key.shape[1] != query.shape[1] else {})}
    with torch.set_grad_enabled(query.requires_grad), torch.random.fork_rng():
        if seed is not None:
            torch.manual_seed(seed)
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, is_causal=causal,
                                            dropout_p=dropout_rate, **younger)


def mha(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,
        bias: Tensor = None, causal: bool = False, dropout_rate: float = 0.0, seed: int | None = None) -> Tensor:
    """`nn.MultiheadAttention`, not asked for weights: in training where there is a rate, else in evaluation."""
    module = module_with(query, params, heads, dropout=dropout_rate).train(dropout_rate > 0)
    hidden = attn_mask(query, key, mask, bias, causal)
    with torch.random.fork_rng():
        if seed is not None:
            torch.manual_seed(seed)
        return module(query, key, value, need_weights=False, attn_mask=hidden)[0]
