"""What is called attention and is none by the definition, or more than that: `init` has to say what stands against it.

`SOURCES` says where each signature is taken from.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Tensor = Any  # torch is not seen by mypy

GITHUB = "https://github.com"
SOURCES = {
    "linear_attn": ("linear-attention-transformer", f"{GITHUB}/lucidrains/linear-attention-transformer/blob/master/"
                    "linear_attention_transformer/linear_attention_transformer.py"),
    "sigmoid_attention": ("ml-sigmoid-attention, its arithmetic", f"{GITHUB}/apple/ml-sigmoid-attention"),
    "MultiHeadAttention": ("Attention is all you need in PyTorch", f"{GITHUB}/jadore801120/"
                           "attention-is-all-you-need-pytorch/blob/master/transformer/SubLayers.py"),
    "AttentionPool2d": ("CLIP", f"{GITHUB}/openai/CLIP/blob/main/clip/model.py"),
    "Headless": ("an Attention that does not say what it is made of", ""),
    "wants_more": ("a kernel with an argument of its own", ""),
}


def linear_attn(q: Tensor, k: Tensor, v: Tensor, kv_mask: Tensor = None) -> Tensor:
    """(B,H,T,D); a softmax of queries and one of keys, and none of their products."""
    context = k.softmax(dim=-2).transpose(-1, -2) @ v
    return q.softmax(dim=-1) * q.shape[-1] ** -0.5 @ context


def sigmoid_attention(q: Tensor, k: Tensor, v: Tensor, bias: float = 0.0) -> Tensor:
    """(B,H,T,D)."""
    return torch.sigmoid(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias) @ v


class MultiHeadAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """It adds its input and normalises the sum."""

    def __init__(self, n_head: int, d_model: int, d_k: int, d_v: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.w_qs, self.w_ks = (nn.Linear(d_model, n_head * d_k, bias=False) for _ in range(2))
        self.w_vs, self.fc = nn.Linear(d_model, n_head * d_v, bias=False), nn.Linear(n_head * d_v, d_model, bias=False)
        self.dropout, self.layer_norm = nn.Dropout(dropout), nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor = None) -> tuple[Tensor, Tensor]:
        """(B,T,M)."""
        residual = q
        q, k, v = (x.reshape(*x.shape[:2], self.n_head, -1).transpose(1, 2)
                   for x in (self.w_qs(q), self.w_ks(k), self.w_vs(v)))
        logits = q @ k.transpose(2, 3) / self.d_k ** 0.5
        weights = (logits if mask is None else logits.masked_fill(mask.unsqueeze(1) == 0, -1e9)).softmax(-1)
        output = self.dropout(self.fc((weights @ v).transpose(1, 2).flatten(2)))
        return self.layer_norm(output + residual), weights


class AttentionPool2d(nn.Module):  # type: ignore[misc]
    """It pools an image to one vector."""

    def __init__(self, spacial_dim: int, embed_dim: int, num_heads: int, output_dim: int | None = None) -> None:
        super().__init__()
        self.positional_embedding = nn.Parameter(torch.randn(spacial_dim ** 2 + 1, embed_dim))
        self.k_proj, self.q_proj, self.v_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.c_proj, self.num_heads = nn.Linear(embed_dim, output_dim or embed_dim), num_heads

    def forward(self, x: Tensor) -> Tensor:
        """(B,C,height,width)."""
        x = x.flatten(start_dim=2).permute(2, 0, 1)
        return (torch.cat([x.mean(0, keepdim=True), x]) + self.positional_embedding[:, None])[0]


class Headless(nn.Module):  # type: ignore[misc]
    """Nobody can tell how it is made."""

    def __init__(self, thing: object) -> None:
        super().__init__()
        self.size = len(thing)  # type: ignore[arg-type]  # that is what nobody can tell


def wants_more(q: Tensor, k: Tensor, v: Tensor, workspace: Tensor) -> Tensor:
    """(B,H,T,D) and a buffer."""
    return workspace[:1] * ((q @ k.transpose(-1, -2)).softmax(-1) @ v)
