"""The attention inside `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer`, through their own `forward`.

Such a layer adds its input to what attention gives, normalises, and goes on to a feed-forward network. All three are
made to do nothing, exactly: the norms are nn.Identity, the network's weights are zero, and the model is twice as wide
as asked for. The input stands in the first half of its columns and the output projection writes to the second, where
the input is zero; so is the output of the heads that the second half adds, and no mask touches those. The
decoder layer's self-attention is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from .filled import Filled, transposed
from .mha import attn_mask

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def encoder(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
            mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """TransformerEncoderLayer in training, with gradient; without dropout."""
    return _encode(_encoder(query, params, heads).train(), query, heads, mask, bias, causal=causal)


def encoder_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                 mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """In inference. Its own fast path would normalise, so it is left (as by any activation but relu and gelu); that of
    the nn.MultiheadAttention inside is taken.
    """
    with torch.no_grad():
        return _encode(_encoder(query, params, heads).eval(), query, heads, mask, bias, causal=causal)


def encoder_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                         mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """A layer with a dropout of one half in evaluation mode, where it should do nothing."""
    return _encode(_encoder(query, params, heads, dropout=0.5).eval(), query, heads, mask, bias, causal=causal)


def encoder_hint(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                 mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """In training, told beside the causal mask that it is one (`is_causal`)."""
    hint = causal and mask is None and bias is None
    return _encode(_encoder(query, params, heads).train(), query, heads, mask, bias, causal=causal, hint=hint)


def encoder_padding(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                    mask: Tensor = None) -> Tensor:
    """TransformerEncoderLayer in training with src_key_padding_mask."""
    return _encode_padding(_encoder(query, params, heads).train(), query, mask)


def encoder_padding_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                         mask: Tensor = None) -> Tensor:
    """The same in inference, without the layer's own fast path."""
    with torch.no_grad():
        return _encode_padding(_encoder(query, params, heads).eval(), query, mask)


def decoder(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
            mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """TransformerDecoderLayer's cross attention in training; its self-attention adds zero. Key and value lie side by
    side in the memory, of which it has one.
    """
    return _decode(_decoder(query, params, heads).train(), query, (key, value), heads, mask=mask, bias=bias)


def decoder_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                 mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """In inference."""
    with torch.no_grad():
        return _decode(_decoder(query, params, heads).eval(), query, (key, value), heads, mask=mask, bias=bias)


def decoder_dropout_eval(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                         mask: Tensor = None, bias: Tensor = None) -> Tensor:
    """A layer with a dropout of one half in evaluation mode, where it should do nothing."""
    return _decode(_decoder(query, params, heads, dropout=0.5).eval(), query, (key, value), heads, mask=mask, bias=bias)


def _encode(layer: Module, query: Tensor, heads: int, mask: Tensor, bias: Tensor, *, causal: bool,
            hint: bool = False) -> Tensor:
    src_mask = attn_mask(query, query, _with_idle_heads(mask, heads, fill=True),
                         _with_idle_heads(bias, heads, fill=0.0), causal)
    output = layer(_side_by_side(query, torch.zeros_like(query)), src_mask=src_mask, is_causal=hint)
    return output[..., query.shape[-1]:]


def _encode_padding(layer: Module, query: Tensor, mask: Tensor) -> Tensor:
    hidden = None if mask is None else ~mask[:, 0, 0]
    output = layer(_side_by_side(query, torch.zeros_like(query)), src_key_padding_mask=hidden)
    return output[..., query.shape[-1]:]


def _decode(layer: Module, query: Tensor, memory: tuple[Tensor, Tensor], heads: int, *, mask: Tensor,
            bias: Tensor) -> Tensor:
    memory_mask = attn_mask(query, memory[0], _with_idle_heads(mask, heads, fill=True),
                            _with_idle_heads(bias, heads, fill=0.0), causal=False)
    output = layer(_side_by_side(query, torch.zeros_like(query)), _side_by_side(*memory), memory_mask=memory_mask)
    return output[..., query.shape[-1]:]


def _side_by_side(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first, second], dim=-1)


def _with_idle_heads(mask: Tensor, heads: int, *, fill: float) -> Tensor:
    """(B,H,T,S) to (B,2H,T,S): nothing hidden from the heads of the second half, and nothing added to their logits."""
    if mask is None:
        return None
    idle = torch.full_like(mask[:, :1], fill).expand(-1, heads, -1, -1)
    return torch.cat([mask, idle], dim=1)


def _encoder(query: Tensor, params: Mapping[str, Tensor], heads: int, dropout: float = 0.0) -> Filled:
    layer = _empty_encoder(query.shape[-1], heads, query.dtype, dropout)
    return _filled(layer, "self_attn", params, query.shape[-1], {"query": 0, "key": 0, "value": 0})


def _decoder(query: Tensor, params: Mapping[str, Tensor], heads: int, dropout: float = 0.0) -> Filled:
    layer, M = _empty_decoder(query.shape[-1], heads, query.dtype, dropout), query.shape[-1]
    return _filled(layer, "multihead_attn", params, M, {"query": 0, "key": 0, "value": M})


def _filled(layer: Module, attention: str, params: Mapping[str, Tensor], M: int, start: Mapping[str, int]) -> Filled:
    """Projections from the M columns that begin at `start` to the first half of the heads, and from there to the
    second half of the model; all else is zero.
    """
    weights = [pad(transposed(params, name), (first, M - first, 0, M)) for name, first in start.items()]
    return Filled(layer, {
        f"{attention}.in_proj_weight": torch.cat(weights),
        f"{attention}.in_proj_bias": torch.cat([pad(params[f"b_{name}"], (0, M)) for name in start]),
        f"{attention}.out_proj.weight": pad(transposed(params, "out"), (0, M, M, 0)),
        f"{attention}.out_proj.bias": pad(params["b_out"], (M, 0))})


@lru_cache(maxsize=32)
def _empty_encoder(width: int, heads: int, dtype: Dtype, dropout: float) -> Module:
    layer = nn.TransformerEncoderLayer(2 * width, 2 * heads, dim_feedforward=1, dropout=dropout, activation=nn.Tanh(),
                                       batch_first=True, norm_first=True, dtype=dtype)
    return _emptied(layer)


@lru_cache(maxsize=32)
def _empty_decoder(width: int, heads: int, dtype: Dtype, dropout: float) -> Module:
    layer = nn.TransformerDecoderLayer(2 * width, 2 * heads, dim_feedforward=1, dropout=dropout, activation=nn.Tanh(),
                                       batch_first=True, norm_first=True, dtype=dtype)
    layer.norm3 = nn.Identity()
    layer.self_attn = _Idle()  # zero weights would do forward; backward, 0 times a NaN of one query is NaN for all
    return _emptied(layer)


class _Idle(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """A self-attention that adds nothing."""

    batch_first = True

    def forward(self, query: Tensor, *_: Tensor, **__: object) -> tuple[Tensor, None]:
        """(B,T,M) to zeros (B,T,M), without weights."""
        return torch.zeros_like(query), None


def _emptied(layer: Module) -> Module:
    """All parameters zero, so that all that is not filled in adds zero, and no norms."""
    layer.norm1 = layer.norm2 = nn.Identity()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
