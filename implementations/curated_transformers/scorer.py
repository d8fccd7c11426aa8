"""`curated_transformers.layers.ScaledDotProductAttention`, written out and on PyTorch's kernel.

It asks for a mask always: where there is none, one that shows every key is given.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention
from curated_transformers.layers.attention import enable_torch_sdp

Tensor = Any  # torch is not seen by mypy
Module = Any


def written_out(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False) -> Tensor:
    """In evaluation, without gradient unless the query requires one."""
    with torch.set_grad_enabled(query.requires_grad):
        return _attend(_scorer(0.0).eval(), query, key, value, mask, causal=causal)


def training(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False) -> Tensor:
    """In training without dropout, with gradient."""
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return _attend(_scorer(0.0).train(), query, key, value, mask, causal=causal)


def dropout_in_evaluation(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None,
                          causal: bool = False) -> Tensor:
    """With a dropout of one half, which evaluation switches off."""
    with torch.set_grad_enabled(query.requires_grad):
        return _attend(_scorer(0.5).eval(), query, key, value, mask, causal=causal)


def torch_sdp(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False) -> Tensor:
    """Within `enable_torch_sdp`, in evaluation. It takes masks of keys: (B,1,1,S)."""
    with torch.set_grad_enabled(query.requires_grad), enable_torch_sdp():
        return _attend(_scorer(0.0).eval(), query, key, value, _of_keys(mask), causal=causal)


def torch_sdp_training(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None,
                       causal: bool = False) -> Tensor:
    """Within `enable_torch_sdp`, in training without dropout."""
    with enable_torch_sdp():
        return _attend(_scorer(0.0).train(), query, key, value, _of_keys(mask), causal=causal)


def _of_keys(mask: Tensor) -> Tensor:
    """(B,S): a mask that is the same for every head and query."""
    return mask if mask is None else mask[:, 0, 0]


def _attend(scorer: Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, causal: bool) -> Tensor:
    all_visible = torch.ones((query.shape[0], key.shape[2]), dtype=torch.bool)
    return scorer(query=query, key=key, value=value, use_causal_mask=causal,
                  attention_mask=AttentionMask(all_visible if mask is None else mask))


@lru_cache(maxsize=4)
def _scorer(dropout: float) -> Module:
    return ScaledDotProductAttention(dropout_prob=dropout, linear_biases=None)
