"""Attention over MXFP8 and NVFP4 caches in PyTorch, whose types of codes and scales are torch's own."""

from __future__ import annotations

import torch
from torch import Tensor

from .quantised import _attend

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The number that each of the sixteen codes of E2M1 stands for."""


def over_mx_cache(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False,
                  scale: float | None = None, key_scale: Tensor | None = None,
                  value_scale: Tensor | None = None) -> Tensor:
    """Query (B,H,T,D), codes of float8_e4m3fn key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales of float8_e8m0fnu
    (B,Hkv,S,D/32) and (B,Hkv,S,Dv/32), to (B,H,T,Dv).
    """
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    key, value = (_in_blocks(codes.to(wide), scales, 32) for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, key, value, mask=mask, causal=causal, scale=scale)


def over_nv_cache(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False,
                  scale: float | None = None, key_scale: Tensor | None = None, value_scale: Tensor | None = None,
                  key_global_scale: Tensor | None = None, value_global_scale: Tensor | None = None) -> Tensor:
    """The same of bytes of two codes of E2M1, key (B,Hkv,S,D/2) and value (B,Hkv,S,Dv/2), with scales of float8_e4m3fn
    (B,Hkv,S,D/16) and (B,Hkv,S,Dv/16), and a second scale () each.
    """
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    key = _in_blocks(_unpacked(key, query.shape[-1], wide), key_scale, 16)
    value = _in_blocks(_unpacked(value, 2 * value.shape[-1], wide), value_scale, 16)
    key, value = (numbers if second is None else numbers * second.to(wide)
                  for numbers, second in ((key, key_global_scale), (value, value_global_scale)))
    return _attend(query, key, value, mask=mask, causal=causal, scale=scale)


def _in_blocks(numbers: Tensor, scales: Tensor | None, length: int) -> Tensor:
    """(B,Hkv,S,D), times the scale of each block of so many features."""
    if scales is None:
        return numbers
    return numbers * scales.to(numbers.dtype).repeat_interleave(length, -1)[..., :numbers.shape[-1]]


def _unpacked(bytes_: Tensor, width: int, wide: torch.dtype) -> Tensor:
    """(B,Hkv,S,D/2) bytes -> (B,Hkv,S,D) numbers, of which there are `width`: the low nibble is the first."""
    nibbles = torch.stack([bytes_ & 15, bytes_ >> 4], dim=-1).flatten(-2)[..., :width]
    return torch.tensor(E2M1, dtype=wide, device=bytes_.device)[nibbles.long()]
