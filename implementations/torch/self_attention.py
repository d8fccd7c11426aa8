"""The layers of `self_attention_note`, which return their weights, and of `self_attention_article`, which does not.

Kept as documented, flaw included: the note's layers hold their scale as a float32 tensor that is no buffer of the
module. `.to(dtype)` leaves it behind: halves raise, and in float64 the root is off by a float32's rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .filled import Filled, linear

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


class SingleHeadAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """Query, key and value projections and one head; no output projection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.root = torch.sqrt(torch.FloatTensor([width]))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """(B,T,M) to (B,T,M) and weights (B,T,T)."""
        logits = torch.matmul(self.query(X), self.key(X).transpose(-2, -1)) / self.root
        weights = torch.softmax(logits, dim=-1)
        return torch.matmul(weights, self.value(X)), weights


class MultiHeadAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """Projections, H heads of width M/H side by side, and an output projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        assert width % heads == 0, "the model width must be a multiple of the number of heads"
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.root: Tensor | float = torch.sqrt(torch.FloatTensor([width // heads]))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """(B,T,M) to (B,T,M) and weights (B,H,T,T)."""
        B, T, M = X.shape
        query, key, value = (project(X).view(B, T, self.heads, -1).transpose(1, 2)
                             for project in (self.query, self.key, self.value))
        weights = torch.softmax(torch.matmul(query, key.transpose(-2, -1)) / self.root, dim=-1)
        attended = torch.matmul(weights, value).transpose(1, 2).reshape(B, T, M)
        return self.out(attended), weights


class SelfAttention(MultiHeadAttention):
    """The article's layer: the same with a plain number as root, and the output alone."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.root = (width // heads) ** 0.5

    def forward(self, X: Tensor) -> Tensor:
        """(B,T,M) to (B,T,M)."""
        return super().forward(X)[0]


def single_head(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query; there is one head)
                return_weights: bool = False) -> Tensor:
    """The note's single-head layer."""
    output, weights = _with_params(_single_head(query.shape[-1], query.dtype), params)(query)
    return (output, weights[:, None]) if return_weights else output


def multi_head(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
               return_weights: bool = False) -> Tensor:
    """The note's multi-head layer."""
    output, weights = _with_params(_multi_head(query.shape[-1], heads, query.dtype), params)(query)
    return (output, weights) if return_weights else output


def multi_head_output(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor],  # noqa: ARG001  (key and value are the query)
                      heads: int) -> Tensor:
    """The article's layer."""
    return _with_params(_self_attention(query.shape[-1], heads, query.dtype), params)(query)


@lru_cache(maxsize=64)
def _single_head(width: int, dtype: Dtype) -> Module:
    return SingleHeadAttention(width).to(dtype)


@lru_cache(maxsize=64)
def _multi_head(width: int, heads: int, dtype: Dtype) -> Module:
    return MultiHeadAttention(width, heads).to(dtype)


@lru_cache(maxsize=64)
def _self_attention(width: int, heads: int, dtype: Dtype) -> Module:
    return SelfAttention(width, heads).to(dtype)


def _with_params(module: Module, params: Mapping[str, Tensor]) -> Filled:
    tensors = [linear(params, name) for name, _ in module.named_children()]
    return Filled(module, {name: tensor for each in tensors for name, tensor in each.items()})
