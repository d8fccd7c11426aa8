"""FlashAttention-3 on codes in FP8 (E4M3), as hopper/flash_attn_interface.py documents it (flash_attn_func).

It puts T before H. Scales are (B,Hkv) for all three, so that the heads of a query share that of their keys; the output
is bfloat16. Widths are filled up with codes of zero to a multiple of 16, and the scale stays that of the width as it
was.
"""

from __future__ import annotations

from typing import Any

from flash_attn_interface import flash_attn_func
from torch.nn.functional import pad

Tensor = Any  # torch is not seen by mypy

MULTIPLE = 16


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None,
           query_scale: Tensor = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Codes query (B,H,T,D), key and value (B,Hkv,S,D), scales (B,), (B,Hkv) and (B,Hkv), to (B,H,T,D)."""
    width = query.shape[-1]
    heads = query_scale if query_scale is None else query_scale[:, None].expand(key.shape[:2]).contiguous()
    arrays = (pad(each, (0, -width % MULTIPLE)).transpose(1, 2) for each in (query, key, value))
    output = flash_attn_func(*arrays, softmax_scale=width ** -0.5 if scale is None else scale, causal=causal,
                             q_descale=heads, k_descale=key_scale, v_descale=value_scale)
    return output.transpose(1, 2)[..., :width]
