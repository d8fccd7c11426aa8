"""The fast path of `nn.TransformerEncoderLayer` and `nn.TransformerEncoder`: one native call for the whole layer.

It adds its input, normalises, and goes on to a feed-forward network, whatever the modules are. The network's weights
are zero. The norms cannot be left out, so they are made to divide by what they multiply with: eps is so large that the
variance beside it is nothing, and its root is the norm's weight, both powers of two. They still take off the mean, so a
model is four times as wide as asked for: the input stands in the first quarter, its negative in the third, and the mean
is zero but for roundings, which cancel where the projections read half of the one less half of the other. The output
projection writes to the second quarter, where the input is zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .filled import PARTS
from .layers import encoder_eval, encoder_padding_eval
from .mha import attn_mask

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any

QUARTERS = 4
_RATIOS = {torch.float32: 2.0**20, torch.float64: 2.0**40}
_DIGITS = {torch.float32: 14, torch.float64: 28}


def fast(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,
         bias: Tensor = None, causal: bool = False) -> Tensor:
    """TransformerEncoderLayer in inference. What such norms have no room for is left to `encoder_eval`."""
    if not _has_room(query):
        _say_not_taken()
        return encoder_eval(query, key, value, params=params, heads=heads, mask=mask, bias=bias, causal=causal)
    idle = (_with_idle_heads(mask, fill=True), _with_idle_heads(bias, fill=0.0))
    return _encoded(_layer(query, params, heads), query, src_mask=attn_mask(query, query, *idle, causal))


def fast_padding(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                 mask: Tensor = None) -> Tensor:
    """The same with src_key_padding_mask."""
    if not _has_room(query):
        _say_not_taken()
        return encoder_padding_eval(query, key, value, params=params, heads=heads, mask=mask)
    return _encoded(_layer(query, params, heads), query,
                    src_key_padding_mask=None if mask is None else ~mask[:, 0, 0])


def nested(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,
           bias: Tensor = None, causal: bool = False) -> Tensor:
    """TransformerEncoder in inference, which makes a nested tensor of what src_key_padding_mask leaves: a longer
    sequence is put beside the batch, so that there is padding; its output is not looked at. At padding the output is
    zero, so what comes with a mask or a bias is left to `encoder_eval`.
    """
    if causal or mask is not None or bias is not None or not _has_room(query):
        _say_not_taken()
        return encoder_eval(query, key, value, params=params, heads=heads, mask=mask, bias=bias, causal=causal)
    B, T = query.shape[:2]
    longer = torch.cat([query, query[:, :1]], dim=1)
    hidden = torch.zeros(B + 1, T + 1, dtype=torch.bool)
    hidden[:B, T] = True
    encoder = nn.TransformerEncoder(_layer(query, params, heads), 1, enable_nested_tensor=True).eval()
    return _encoded(encoder, torch.cat([longer, longer[-1:]]), src_key_padding_mask=hidden)[:B, :T]


def _say_not_taken() -> None:
    """Tell attnspec that this call takes another path than the variant is about."""
    sys.stderr.write("attnspec: path not taken\n")


def _has_room(query: Tensor) -> bool:
    """Whether such norms leave (B,T,M) as it is: not where entries are far apart, very large or very small, nor in half
    precision.
    """
    if query.dtype not in _RATIOS:
        return False
    entries = query.abs()[query != 0]
    if not len(entries):
        return True
    least, most = float(entries.min()), float(entries.max())
    return most < 2.0**40 and least > 2.0**-40 and most < least * _RATIOS[query.dtype]


def _encoded(module: Module, query: Tensor, **masks: Tensor) -> Tensor:
    """What attention adds to the second quarter of the columns."""
    M = query.shape[-1]
    with torch.no_grad():
        return module(_antisymmetric(query), **masks)[..., M:2 * M]


def _antisymmetric(query: Tensor) -> Tensor:
    """(B,T,M) to (B,T,4M), whose mean is zero."""
    zeros = torch.zeros_like(query)
    return torch.cat([query, zeros, -query, zeros], dim=-1)


def _with_idle_heads(mask: Tensor, *, fill: float) -> Tensor:
    """(B,H,T,S) to (B,4H,T,S): nothing hidden from the heads that are not looked at, and nothing added."""
    if mask is None:
        return None
    return torch.cat([mask, *[torch.full_like(mask, fill)] * (QUARTERS - 1)], dim=1)


def _layer(query: Tensor, params: Mapping[str, Tensor], heads: int) -> Module:
    layer, M = _empty(query.shape[-1], heads, query.dtype), query.shape[-1]
    attention = layer.self_attn
    with torch.no_grad():
        for part, name in enumerate(PARTS):
            rows = slice(QUARTERS * part * M, QUARTERS * part * M + M)
            attention.in_proj_weight[rows, :M] = params[f"w_{name}"].T / 2
            attention.in_proj_weight[rows, 2 * M:3 * M] = -params[f"w_{name}"].T / 2
            attention.in_proj_bias[rows] = params[f"b_{name}"]
        root = _root(query)
        for norm in (layer.norm1, layer.norm2):
            norm.eps = root**2
            nn.init.constant_(norm.weight, root)
        attention.out_proj.weight[M:2 * M, :M] = params["w_out"].T
        attention.out_proj.bias[M:2 * M] = params["b_out"]
    return layer


def _root(query: Tensor) -> float:
    """The root of eps: a power of two, far above all of (B,T,M)."""
    largest = float(query.abs().max()) if query.numel() else 0.0
    return 2.0 ** (math.frexp(largest)[1] + _DIGITS[query.dtype])


@lru_cache(maxsize=32)
def _empty(width: int, heads: int, dtype: Dtype) -> Module:
    """All parameters are zero."""
    layer = nn.TransformerEncoderLayer(QUARTERS * width, QUARTERS * heads, dim_feedforward=1, dropout=0.0,
                                       batch_first=True, norm_first=True, dtype=dtype).eval()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
