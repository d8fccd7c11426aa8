"""`torch.nn.attention.varlen.varlen_attn`: packed sequences by the flash kernel, on CUDA alone.

The kernel takes widths that are multiples of 8 only. Others are filled up with zeros, and the scale stays that of the
width as it was.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch.nn.attention.varlen import AuxRequest, varlen_attn
from torch.nn.functional import pad

from .flex import Window

Tensor = Any  # torch is not seen by mypy

MULTIPLE = 8
UNLIMITED = -1
YOUNGER = {"enable_gqa"} & set(inspect.signature(varlen_attn).parameters)  # before it, groups needed no switch


def attend(query: Tensor, key: Tensor, value: Tensor, *, cu_query: Tensor, cu_key: Tensor, max_query: int, max_key: int,
           causal: bool = False, scale: float | None = None, window: Window | None = None,
           return_lse: bool = False) -> Any:  # noqa: ANN401  (a tensor, or two)
    """Query (Nq,H,D), key and value (Nk,Hkv,D) to (Nq,H,D), and the log-sum-exp, (H,Nq) as it comes, as (Nq,H)."""
    width = query.shape[-1]
    query, key, value = (pad(each, (0, -each.shape[-1] % MULTIPLE)) for each in (query, key, value))
    left, right = (UNLIMITED if reach is None else reach for reach in window or (None, None))
    output, lse = varlen_attn(query, key, value, cu_query, cu_key, max_query, max_key,
                              return_aux=AuxRequest(lse=True), scale=width ** -0.5 if scale is None else scale,
                              window_size=(left, 0 if causal else right),
                              **({"enable_gqa": True} if YOUNGER and key.shape[1] != query.shape[1] else {}))
    output = output[..., :width]
    return (output, lse.T) if return_lse else output
