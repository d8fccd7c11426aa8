"""Multi-head attention as the paper defines it and `aiayn_notes` retells it: Concat(head_1 … head_h) W^O.

The three uses are three ways to call one layer: in the encoder query, key and value are the same sequence; in the
decoder too, with `causal`; between them the query comes from the decoder, key and value from the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

Tensor = Any

HIDDEN = -1e10  # "a very negative number" that the notes put in the place of a hidden logit


def multi_head(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
               mask: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked for."""
    inputs = {"query": query, "key": key, "value": value}
    Q, K, V = ((x @ params[f"w_{name}"]).unflatten(-1, (heads, -1)).transpose(1, 2) for name, x in inputs.items())
    visible = torch.ones(Q.shape[2], K.shape[2], dtype=torch.bool)
    visible = visible.tril() if causal else visible
    attended, weights = _attention(Q, K, V, visible if mask is None else visible & mask)
    output = attended.transpose(1, 2).flatten(2) @ params["w_out"]
    return (output, weights) if return_weights else output


def _attention(Q: Tensor, K: Tensor, V: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V, hidden logits replaced before the softmax: (B,H,T,Dv) and (B,H,T,S)."""
    wide = torch.promote_types(Q.dtype, torch.float32)  # float16 has no room for the hidden logits
    logits = (Q @ K.transpose(-1, -2)).to(wide) / math.sqrt(Q.shape[-1])
    weights = torch.softmax(logits.masked_fill(~visible, HIDDEN), dim=-1).to(Q.dtype)
    return weights @ V, weights
