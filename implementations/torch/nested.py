"""Ragged batches as nested tensors, which hold sequences of different lengths without padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from .mha import module_with

Tensor = Any  # torch is not seen by mypy


def jagged(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, scale: float | None = None) -> Tensor:
    """F.scaled_dot_product_attention on tensors of layout torch.jagged, from which hidden keys are left out."""
    with torch.no_grad():
        tokens = [tensor.transpose(1, 2) for tensor in (query, key, value)]
        packed = [torch.nested.nested_tensor(entries, layout=torch.jagged).transpose(1, 2)
                  for entries in (list(tokens[0]), *(_visible(each, mask) for each in tokens[1:]))]
        return torch.stack(_attended(packed, scale))


def jagged_by_lengths(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None,
                      key_lengths: Tensor = None, query_lengths: Tensor = None) -> Tensor:
    """The same of the first tokens of each sequence alone; rows of no token are zeros."""
    with torch.no_grad():
        lengths = (query_lengths, key_lengths, key_lengths)
        shape = (query.shape[0], query.shape[2], query.shape[1], value.shape[3])
        packed = [torch.nested.nested_tensor(_first(tensor.transpose(1, 2), own), layout=torch.jagged).transpose(1, 2)
                  for tensor, own in zip((query, key, value), lengths)]
        query, key, value = packed
        output = scaled_dot_product_attention(query, key, value, scale=scale).transpose(1, 2)
        return torch.nested.to_padded_tensor(output, 0.0, output_size=shape).transpose(1, 2)


def strided(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, scale: float | None = None) -> Tensor:
    """The same in the older layout, torch.strided."""
    with torch.no_grad():
        tokens = [tensor.transpose(1, 2) for tensor in (query, key, value)]
        packed = [torch.nested.nested_tensor([entry.transpose(0, 1) for entry in entries])
                  for entries in (list(tokens[0]), *(_visible(each, mask) for each in tokens[1:]))]
        return torch.stack(_attended(packed, scale))


def _visible(tokens: Tensor, mask: Tensor) -> list[Tensor]:
    """(B,S,H,D) to B tensors of the tokens that a mask (B,H,T,S), the same for all heads and queries, leaves."""
    return [entry if mask is None else entry[mask[b, 0, 0]] for b, entry in enumerate(tokens)]


def _first(tokens: Tensor, lengths: Tensor) -> list[Tensor]:
    """(B,L,H,D) to B tensors of as many first tokens as their lengths say."""
    return [entry if lengths is None else entry[:lengths[b]] for b, entry in enumerate(tokens)]


def _attended(packed: list[Tensor], scale: float | None) -> list[Tensor]:
    """B outputs, each (H,T,Dv)."""
    query, key, value = packed
    return list(scaled_dot_product_attention(query, key, value, scale=scale).unbind())


def layer(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """nn.MultiheadAttention in inference on one nested tensor."""
    return _layer(query, params, heads, need_weights=False)


def layer_weighed(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int) -> Tensor:  # noqa: ARG001  (key and value are the query)
    """The same, asked for weights, which the output does not show."""
    return _layer(query, params, heads, need_weights=True)


def _layer(query: Tensor, params: Mapping[str, Tensor], heads: int, *, need_weights: bool) -> Tensor:
    """A longer sequence is put beside the batch, (B,T,M), so that lengths differ; its output is not looked at."""
    module = module_with(query, params, heads).eval()
    with torch.no_grad():
        ragged = torch.nested.nested_tensor([*query, torch.cat([query[-1], query[-1, :1]])])
        output = module(ragged, ragged, ragged, need_weights=need_weights)[0]
        return torch.stack(list(output.unbind())[:-1])
