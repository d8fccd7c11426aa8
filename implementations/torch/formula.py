"""Attention written out as textbooks have it, softmax(Q K^T / sqrt(D)) V, and the same under torch.compile.

The compiler knows this formula: where it finds it, it puts F.scaled_dot_product_attention in its place
(torch/_inductor/fx_passes/fuse_attention.py). The answer must stay.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from .compiling import compile_often

Tensor = Any  # torch is not seen by mypy


def written_out(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                causal: bool = False) -> Tensor:
    """Step by step, without gradients unless the query requires one."""
    with torch.set_grad_enabled(query.requires_grad):
        return attend(query, key, value, mask, bias, causal=causal)


def compiled(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
             causal: bool = False) -> Tensor:
    """Compiled for each shape: without a boolean mask, it becomes F.scaled_dot_product_attention."""
    with torch.set_grad_enabled(query.requires_grad):
        return _compiled(dynamic=False)(query, key, value, mask, bias, causal=causal)


def compiled_dynamic(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                     causal: bool = False) -> Tensor:
    """Compiled with shapes left open, as it is by default once a second shape has come."""
    with torch.set_grad_enabled(query.requires_grad):
        return _compiled(dynamic=True)(query, key, value, mask, bias, causal=causal)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor, *, causal: bool) -> Tensor:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv); mask (True = may attend) and bias (B,H,T,S)."""
    logits = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~mask, float("-inf"))
    if causal:
        past = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril()
        logits = logits.masked_fill(~past, float("-inf"))
    return torch.softmax(logits, dim=-1) @ value


@lru_cache(maxsize=2)
def _compiled(*, dynamic: bool) -> Any:  # noqa: ANN401  (a function that torch made)
    """Each keyword, dtype and length of one is a graph of its own."""
    return compile_often(attend, dynamic=dynamic, programs=1024)
