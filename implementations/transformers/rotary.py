"""Rotary embeddings of four models, each with its own module of cos and sin and its own function that applies them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from transformers import CohereConfig, GlmConfig, GPTNeoXConfig
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.glm import modeling_glm as glm
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.gptj import modeling_gptj as gptj

Tensor = Any  # torch is not seen by mypy


def gpt_neox_rope(x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_width: int | None = None) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), of which the first rotary_width features are turned."""
    width = x.shape[-1]
    cos, sin = _gpt_neox(width, base, (rotary_width or width) / width)(x, positions)
    return gpt_neox.apply_rotary_pos_emb(x, x, cos, sin)[0]


def cohere_rope(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    cos, sin = _cohere(x.shape[-1], base)(x, positions)
    return cohere.apply_rotary_pos_emb(x, x, cos, sin)[0]


def glm_rope(x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_width: int | None = None) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), the first rotary_width features of it."""
    width = x.shape[-1]
    cos, sin = _glm(width, base, (rotary_width or width) / width)(x, positions)
    return glm.apply_rotary_pos_emb(x, x, cos, sin)[0]


def gptj_rope(x: Tensor, positions: Tensor) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D); the table has the dtype of x, as in a model cast to it."""
    table = _table(2 ** (int(positions.max()) + 1).bit_length(), x.shape[-1]).to(x.dtype)
    sin, cos = table[positions.long()].chunk(2, dim=-1)
    return gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)


@lru_cache(maxsize=8)
def _gpt_neox(width: int, base: float, share: float) -> Tensor:
    parameters = {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share}
    return gpt_neox.GPTNeoXRotaryEmbedding(GPTNeoXConfig(
        hidden_size=width, num_attention_heads=1, rope_parameters=parameters))


@lru_cache(maxsize=8)
def _cohere(width: int, base: float) -> Tensor:
    parameters = {"rope_type": "default", "rope_theta": base}
    return cohere.CohereRotaryEmbedding(CohereConfig(
        hidden_size=width, num_attention_heads=1, rope_parameters=parameters))


@lru_cache(maxsize=8)
def _glm(width: int, base: float, share: float) -> Tensor:
    parameters = {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share}
    return glm.GlmRotaryEmbedding(GlmConfig(head_dim=width, rope_parameters=parameters))


@lru_cache(maxsize=4)
def _table(places: int, width: int) -> Tensor:
    """(places,D): sines, then cosines."""
    return gptj.create_sinusoidal_positions(places, width)
