"""Attention over an FP8 or INT8 cache in PyTorch: the cache is dequantised, and F.scaled_dot_product_attention follows.

This is what PyTorch's own documentation has for a CPU: no kernel of its reads a narrow cache there by itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (so PyTorch's documentation calls it)
from torch import Tensor


def over_cache(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False,
               scale: float | None = None, key_scale: Tensor | None = None,
               value_scale: Tensor | None = None) -> Tensor:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (Hkv,) of each, to (B,H,T,Dv)."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    key, value = (_dequantised(codes, scales, wide) for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, key, value, mask=mask, causal=causal, scale=scale)


def over_unsigned_cache(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False,
                        scale: float | None = None, key_scale: Tensor | None = None, value_scale: Tensor | None = None,
                        key_zero: Tensor | None = None, value_zero: Tensor | None = None) -> Tensor:
    """The same with scales and zero points (B,Hkv,S) for each token, as of `torch.quantize_per_channel`."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    key, value = (_by_token(*of_array, wide) for of_array in ((key, key_scale, key_zero),
                                                              (value, value_scale, value_zero)))
    return _attend(query, key, value, mask=mask, causal=causal, scale=scale)


def over_cache_in_blocks(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False,
                         scale: float | None = None, key_scale: Tensor | None = None,
                         value_scale: Tensor | None = None) -> Tensor:
    """The same with one scale (B,Hkv,S/128) for each block of 128 tokens, as FlashAttention-3 quantises."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    key, value = (_by_token(codes, None if scales is None else scales.repeat_interleave(128, -1)[..., :key.shape[2]],
                            None, wide) for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, key, value, mask=mask, causal=causal, scale=scale)


def _by_token(codes: Tensor, scales: Tensor | None, zeros: Tensor | None, wide: torch.dtype) -> Tensor:
    """Codes (B,Hkv,S,D), less the zero points and times the scales (B,Hkv,S) of their tokens."""
    numbers = codes.to(wide) if zeros is None else codes.to(wide) - zeros.to(wide)[..., None]
    return numbers if scales is None else numbers * scales.to(wide)[..., None]


def _attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, causal: bool,
            scale: float | None) -> Tensor:
    """Query (B,H,T,D), numbers key (B,Hkv,S,D) and value (B,Hkv,S,Dv), to (B,H,T,Dv)."""
    wide = key.dtype
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    output = F.scaled_dot_product_attention(query.to(wide), key, value, attn_mask=mask, is_causal=causal, scale=scale)
    return output.to(query.dtype)


def _dequantised(codes: Tensor, scales: Tensor | None, wide: torch.dtype) -> Tensor:
    """Codes (B,Hkv,S,D) times the scales (Hkv,) of their heads."""
    return codes.to(wide) if scales is None else codes.to(wide) * scales.to(wide)[:, None, None]


def by_matmul(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, query_scale: Tensor | None = None,
              key_scale: Tensor | None = None, value_scale: Tensor | None = None) -> Tensor:
    """All three are FP8 codes with one scale each, as in FlashAttention-3: products of codes in float32, scales behind
    them. Shapes as of `over_cache`; scales ().
    """
    wide = torch.float32
    group = query.shape[1] // key.shape[1]
    codes = [array.to(wide) for array in (query, key.repeat_interleave(group, 1), value.repeat_interleave(group, 1))]
    logits = codes[0] @ codes[1].transpose(-1, -2) * query.shape[-1] ** -0.5
    for scales in (query_scale, key_scale):
        logits = logits if scales is None else logits * scales
    if causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        logits = logits.masked_fill(~visible, -torch.inf)
    output = torch.softmax(logits, -1) @ codes[2]
    return output if value_scale is None else output * value_scale
