"""The rotary embedding of LLaMA, by itself and within torch.autocast, in releases from 4.38 on."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import torch
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama as llama

Tensor = Any  # torch is not seen by mypy


def rotate(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    cos, sin = _embedding(x.shape[-1], base)(x, positions)
    return llama.apply_rotary_pos_emb(x, x, cos, sin)[0]


def in_autocast(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """The same in mixed precision: products of matrices are bfloat16 unless a module sees to it that they are not."""
    with torch.autocast("cpu", torch.bfloat16):
        return rotate(x, positions, base=base)


@lru_cache(maxsize=8)
def _embedding(width: int, base: float) -> Any:  # noqa: ANN401  (a module)
    if "dim" in inspect.signature(llama.LlamaRotaryEmbedding).parameters:
        return llama.LlamaRotaryEmbedding(width, base=base)
    parameters = {"rope_type": "default", "rope_theta": base}
    return llama.LlamaRotaryEmbedding(LlamaConfig(head_dim=width, rope_parameters=parameters))
