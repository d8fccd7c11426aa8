"""`torch.nn.MultiheadAttention`, in the modes that take different paths through it.

Its boolean mask is True where a key is hidden, the reverse of ours; it has one argument for masks, per head or for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .filled import PARTS, Filled, in_one, linear

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def mha(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,
        bias: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
    """need_weights=True: written out in matrix products. Training mode, with gradient."""
    module = module_with(query, params, heads).train()
    output, weights = module(query, key, value, attn_mask=attn_mask(query, key, mask, bias, causal),
                             need_weights=True, average_attn_weights=False)
    return (output, weights) if return_weights else output


def mha_averaged(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                 mask: Tensor = None, bias: Tensor = None, causal: bool = False,
                 return_weights: bool = False) -> Tensor:
    """need_weights=True as it is by default: weights (B,T,S), the mean over heads."""
    module = module_with(query, params, heads).train()
    output, weights = module(query, key, value, attn_mask=attn_mask(query, key, mask, bias, causal))
    return (output, weights) if return_weights else output


def mha_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
             mask: Tensor = None, bias: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
    """As `mha`, in inference: evaluation mode, no gradient. Self-attention takes the fast path."""
    module = module_with(query, params, heads).eval()
    with torch.no_grad():
        output, weights = module(query, key, value, attn_mask=attn_mask(query, key, mask, bias, causal),
                                 need_weights=True, average_attn_weights=False)
    return (output, weights) if return_weights else output


def mha_no_weights(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                   mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """need_weights=False: through F.scaled_dot_product_attention. Training mode, with gradient."""
    module = module_with(query, params, heads).train()
    return module(query, key, value, need_weights=False, attn_mask=attn_mask(query, key, mask, bias, causal))[0]


def mha_no_weights_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                        mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """As `mha_no_weights`, in inference. Self-attention takes the fast path."""
    module = module_with(query, params, heads).eval()
    with torch.no_grad():
        hidden = attn_mask(query, key, mask, bias, causal)
        return module(query, key, value, need_weights=False, attn_mask=hidden)[0]


def mha_causal_hint(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                    mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """As `mha_no_weights`, telling it beside the causal mask that it is one: `is_causal`, which it calls a hint."""
    module = module_with(query, params, heads).train()
    only_causal = causal and mask is None and bias is None
    hidden = attn_mask(query, key, mask, bias, causal)
    return module(query, key, value, need_weights=False, attn_mask=hidden, is_causal=only_causal)[0]


def mha_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                     mask: Tensor = None, bias: Tensor = None, causal: bool = False,
                     return_weights: bool = False) -> Tensor:
    """As `mha`, with a dropout of one half, in evaluation mode, where it should do nothing."""
    module = module_with(query, params, heads, dropout=0.5).eval()
    output, weights = module(query, key, value, attn_mask=attn_mask(query, key, mask, bias, causal),
                             need_weights=True, average_attn_weights=False)
    return (output, weights) if return_weights else output


def mha_no_weights_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor],
                                heads: int, mask: Tensor = None, bias: Tensor = None,
                                causal: bool = False) -> Tensor:
    """As `mha_no_weights`, with a dropout of one half, in evaluation mode, where it should do nothing."""
    module = module_with(query, params, heads, dropout=0.5).eval()
    return module(query, key, value, need_weights=False, attn_mask=attn_mask(query, key, mask, bias, causal))[0]


def attn_mask(query: Tensor, key: Tensor, mask: Tensor, bias: Tensor, causal: bool) -> Tensor:
    """Boolean (T,S) for the causal mask alone, else (B·H,T,S): boolean, or the bias with -inf where a key is hidden."""
    later = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).triu(1) if causal else None
    hidden = later if mask is None else ~mask if later is None else ~mask | later
    if bias is not None:
        bias = bias.flatten(0, 1)
        return bias if hidden is None else bias.masked_fill(_per_head(hidden), float("-inf"))
    return hidden if hidden is None else _per_head(hidden)


def _per_head(hidden: Tensor) -> Tensor:
    """(B,H,T,S) to (B·H,T,S); (T,S) stays."""
    return hidden if hidden.dim() == 2 else hidden.flatten(0, 1)


def module_with(query: Tensor, params: Mapping[str, Tensor], heads: int, dropout: float = 0.0, *,
                batch_first: bool = True) -> Filled:
    """The module with these parameters: its three projections stand in one matrix, transposed."""
    module = _empty_module(query.shape[-1], heads, query.dtype, dropout, batch_first)
    return Filled(module, {"in_proj_weight": in_one(params), **all_but_inputs(params)})


def all_but_inputs(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the module has beside the three input projections: their biases, and the output projection."""
    return {"in_proj_bias": torch.cat([params[f"b_{part}"] for part in PARTS]), **linear(params, "out", "out_proj")}


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, dtype: Dtype, dropout: float, batch_first: bool) -> Module:  # a cache's key
    return nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=batch_first, dtype=dtype)
