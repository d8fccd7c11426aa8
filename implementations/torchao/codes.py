"""Attention over codes that torchao dequantises: `dequantize_affine`, and `Float8Tensor.dequantize`.

torchao has no attention over a cache of codes on a CPU (`torchao::qscaled_dot_product` has no kernel in its wheel), so
that F.scaled_dot_product_attention follows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (so PyTorch's documentation calls it)
from torchao.quantization import Float8Tensor, dequantize_affine

Tensor = Any  # torch is not seen by mypy


def by_head(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
            scale: float | None = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (Hkv,) of each, to (B,H,T,Dv)."""
    numbers = (_affine(codes, scales, (codes.shape[0], 1, *codes.shape[2:]))
               for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, *numbers, mask=mask, causal=causal, scale=scale)


def by_token(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
             scale: float | None = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """The same with scales (B,Hkv,S)."""
    numbers = (_affine(codes, scales, (1, 1, 1, codes.shape[3]))
               for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, *numbers, mask=mask, causal=causal, scale=scale)


def float8(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
           scale: float | None = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Codes in FP8 with scales (B,Hkv,S), which are the rows of a Float8Tensor."""
    numbers = (_float8(codes, scales) for codes, scales in ((key, key_scale), (value, value_scale)))
    return _attend(query, *numbers, mask=mask, causal=causal, scale=scale)


def _affine(codes: Tensor, scales: Tensor | None, block: tuple[int, ...]) -> Tensor:
    """Codes (B,Hkv,S,D) in float32, times a scale for each block."""
    if scales is None:
        return codes.to(torch.float32)
    return dequantize_affine(codes, block, scales, None, codes.dtype, output_dtype=torch.float32)


def _float8(codes: Tensor, scales: Tensor | None) -> Tensor:
    """Codes (B,Hkv,S,D) in float32, times the scales (B,Hkv,S) of their rows."""
    if scales is None:
        return codes.to(torch.float32)
    rows = Float8Tensor(codes, scales[..., None], block_size=[1, 1, 1, codes.shape[3]], dtype=torch.float32)
    return rows.dequantize()


def _attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, causal: bool, scale: float | None) -> Tensor:
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    output = F.scaled_dot_product_attention(query.to(torch.float32), key, value, attn_mask=mask, is_causal=causal,
                                            scale=scale)
    return output.to(query.dtype)
