"""`torch.nn.MultiheadAttention` given one and the same tensor three times: self-attention, which has a fast path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from . import mha as modes

Tensor = Any


def train(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,  # noqa: ARG001  (key and value are the query)
          bias: Tensor = None, causal: bool = False) -> Tensor:
    """Training mode with gradient: never the fast path."""
    return modes.mha_no_weights(query, query, query, params=params, heads=heads, mask=mask, bias=bias, causal=causal)


def inference(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
              mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Evaluation mode without gradient: the fast path."""
    return modes.mha_no_weights_eval(query, query, query, params=params, heads=heads, mask=mask, bias=bias,
                                     causal=causal)


def inference_with_weights(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
                           mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """The fast path, asked for weights too."""
    return modes.mha_eval(query, query, query, params=params, heads=heads, mask=mask, bias=bias, causal=causal)


def inference_written_out(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                          mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Inference with the fast path switched off."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(value=False)
    try:
        return inference(query, key, value, params=params, heads=heads, mask=mask, bias=bias, causal=causal)
    finally:
        torch.backends.mha.set_fastpath_enabled(value=was)
