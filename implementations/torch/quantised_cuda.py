"""PyTorch's attention on codes in FP8 (E4M3) on CUDA, by FlashAttention-3: experimental, by its docstring."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import activate_flash_attention_impl
from torch.nn.attention.experimental._scaled_dot_product_attention_quantized import (
    _scaled_dot_product_attention_quantized,
)


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None,
           query_scale: Tensor | None = None, key_scale: Tensor | None = None,
           value_scale: Tensor | None = None) -> Tensor:
    """Codes query (B,H,T,D), key and value (B,Hkv,S,D), scales (B,), (B,Hkv) and (B,Hkv), to (B,H,T,D) in bfloat16."""
    activate_flash_attention_impl("FA3")
    heads = query_scale if query_scale is None else query_scale[:, None].expand(key.shape[:2]).contiguous()
    with torch.no_grad():
        return _scaled_dot_product_attention_quantized(query, key, value, is_causal=causal, scale=scale,
                                                       q_descale=heads, k_descale=key_scale, v_descale=value_scale)
