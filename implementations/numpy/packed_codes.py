"""Attention over caches of four bits a code, two codes to a byte, and over blocks of MX and NV formats.

Codes are unpacked and dequantised first; E2M1, E4M3 and E8M0 are the types of ml_dtypes.
"""

from __future__ import annotations

import numpy as np

from .attention import softmax, wide_of
from .quantised import Array, dequantising, factor, heads, hidden, spread_groups, times

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""The number that each of the sixteen codes of E2M1 stands for."""

MX_BLOCK, NV_BLOCK = 32, 16
"""How many neighbouring features share a scale."""


def over_nibbles(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                 scale: float | None = None, key_scale: Array | None = None,
                 value_scale: Array | None = None) -> Array:
    """An INT4 cache, key (B,Hkv,S,D/2) and value (B,Hkv,S,Dv/2), low nibble first, with scales (Hkv,). The query is
    (B,H,T,D), the output (B,H,T,Dv).
    """
    of_heads = (None if each is None else each[:, None, None] for each in (key_scale, value_scale))
    return dequantising(query, signed(unpacked(key, query.shape[-1])), signed(unpacked(value, 2 * value.shape[-1])),
                        mask=mask, causal=causal, scale=scale, key_scale=next(of_heads), value_scale=next(of_heads))


def over_packed_tokens(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                       key_scale: Array | None = None, value_scale: Array | None = None, key_zero: Array | None = None,
                       value_zero: Array | None = None) -> Array:
    """A UINT4 cache of which neighbouring tokens of a key share a byte, the first in the high nibble: key
    (B,Hkv,S/2,D), value (B,Hkv,S,Dv/2). Scales and zero points (B,Hkv,S) are one for each token.
    """
    keys = unpacked(key.swapaxes(2, 3), value.shape[2], is_high_first=True).swapaxes(2, 3)
    of_tokens = [None if each is None else each[..., None] for each in (key_scale, value_scale, key_zero, value_zero)]
    return dequantising(query, keys, unpacked(value, 2 * value.shape[-1], is_high_first=True), mask=mask,
                        causal=causal, key_scale=of_tokens[0], value_scale=of_tokens[1], key_zero=of_tokens[2],
                        value_zero=of_tokens[3])


def over_mx_blocks(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                   key_scale: Array | None = None, value_scale: Array | None = None) -> Array:
    """MXFP4: codes of E2M1, key (B,Hkv,S,D) and value (B,Hkv,S,Dv), and scales of E8M0, (B,Hkv,S,D/32) of keys, and of
    values, whose blocks lie along the tokens, (B,Hkv,S/32,Dv).
    """
    of_keys = spread_groups(key_scale, MX_BLOCK, 3, key.shape[3])
    of_values = spread_groups(value_scale, MX_BLOCK, 2, value.shape[2])
    return dequantising(query, key, value, mask=mask, causal=causal, key_scale=of_keys, value_scale=of_values)


def over_nv_blocks(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
                   scale: float | None = None, key_scale: Array | None = None, value_scale: Array | None = None,
                   key_global_scale: Array | None = None, value_global_scale: Array | None = None) -> Array:
    """NVFP4: bytes of two codes of E2M1, key (B,Hkv,S,D/2) and value (B,Hkv,S,Dv/2), scales of E4M3 (B,Hkv,S,D/16) and
    (B,Hkv,S,Dv/16), and a second scale () each. That of the keys is folded into the scale of the softmax, that of the
    values into the output.
    """
    wide, width = wide_of(query), query.shape[-1]
    keys, values = E2M1[unpacked(key, width)].astype(wide), E2M1[unpacked(value, 2 * value.shape[-1])].astype(wide)
    keys = times(keys, spread_groups(key_scale, NV_BLOCK, 3, keys.shape[3]), wide)
    values = times(values, spread_groups(value_scale, NV_BLOCK, 3, values.shape[3]), wide)
    by = factor(query, scale) * (1 if key_global_scale is None else wide.type(key_global_scale))
    logits = query.astype(wide) @ heads(keys, query).swapaxes(-1, -2) * wide.type(by)
    output = softmax(hidden(logits, mask, causal)) @ heads(values, query)
    return np.asarray((output if value_global_scale is None else output * wide.type(value_global_scale))
                      .astype(query.dtype))


def unpacked(bytes_: Array, width: int, *, is_high_first: bool = False) -> Array:
    """(B,Hkv,S,D/2) bytes -> (B,Hkv,S,D) nibbles from 0 to 15, of which there are `width`."""
    nibbles = (bytes_ >> 4, bytes_ & 15) if is_high_first else (bytes_ & 15, bytes_ >> 4)
    return np.stack(nibbles, axis=-1).reshape(*bytes_.shape[:-1], -1)[..., :width]


def signed(nibbles: Array) -> Array:
    """Nibbles of any shape as int8: from 8 on they are negative."""
    return (nibbles.astype(np.int8) ^ np.int8(8)) - np.int8(8)
