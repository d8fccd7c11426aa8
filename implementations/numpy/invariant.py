"""Scaled dot-product attention whose bits hang on what a query sees, and on nothing else.

Every sum is taken term by term, in the order of features and of keys: a matrix product would add up in an order that
depends on all sizes. A key that is not seen adds an exact zero, so that neither padding nor the cut between past and
new keys changes a bit.
"""

from __future__ import annotations

import math

import numpy as np

from .attention import Array
from .serving import ahead, widened, within


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, bias: Array | None = None,
              causal: bool = False, scale: float | None = None, key_lengths: Array | None = None,
              past_key: Array | None = None, past_value: Array | None = None) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv). past_key (B,Hkv,P,D), past_value
    (B,Hkv,P,Dv), mask and bias (B,H,T,P+S), key_lengths (B,).
    """
    dtype, new = query.dtype, key.shape[2]
    query, key, value = widened(query, key, value, past_key, past_value)
    wide, (B, H, T, D), S = query.dtype, query.shape, key.shape[2]

    visible = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    if causal:
        visible = visible & (ahead(T, S, S - new) <= 0)
    if key_lengths is not None:
        visible = visible & within(key_lengths, S)[:, None, None]

    logits = np.zeros((B, H, T, S), wide)
    for feature in range(D):
        logits += query[..., feature, None] * key[:, :, None, :, feature]
    logits = logits * wide.type(1 / math.sqrt(D) if scale is None else scale)
    if bias is not None:
        logits = logits + bias.astype(wide)
    logits = np.where(visible, logits, wide.type(-np.inf))
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    grown = np.exp(logits - np.where(np.isneginf(top), 0, top))

    total, output = np.zeros((B, H, T, 1), wide), np.zeros((B, H, T, value.shape[3]), wide)
    for at in range(S):
        seen = visible[..., at, None] & (grown[..., at, None] > 0)
        total += grown[..., at, None]
        output += np.where(seen, grown[..., at, None] * value[:, :, None, at], 0)
    return (output / np.where(total == 0, 1, total)).astype(dtype)
