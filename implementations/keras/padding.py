"""Keras's layers with the masks that tell padding: `value_mask`, (B,S), True where a value is a token.

Models hand it over where an Embedding with mask_zero made one. A mask (B,H,T,S) here is the same for all heads and
queries.
"""

from __future__ import annotations

from typing import Any, Mapping

from .attention import attend as attend_attention
from .multi_head import filled_for

Array = Any
Params = Mapping[str, Array]


def mha(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
        causal: bool = False) -> Array:
    """MultiHeadAttention, not asked for scores."""
    return filled_for(query, params, heads)(query, value, key, value_mask=_tokens(mask), use_causal_mask=causal)


def mha_scores(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False) -> Array:
    """MultiHeadAttention asked for scores: written out in einsums."""
    layer = filled_for(query, params, heads)
    return layer(query, value, key, value_mask=_tokens(mask), use_causal_mask=causal, return_attention_scores=True)[0]


def attention(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
              scale: float | None = None) -> Array:
    """`keras.layers.Attention`, whose masks are one for the query and one for the value."""
    padding = None if mask is None else mask[:, :, 0]
    return attend_attention(query, key, value, causal=causal, scale=scale, padding=padding)


def _tokens(mask: Array) -> Array:
    return None if mask is None else mask[:, 0, 0]
