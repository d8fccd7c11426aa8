"""Puts parameters of the convention x @ W + b into modules, which keep W transposed. Biases go where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Tensor = Any  # torch is not seen by mypy
Linear = Any


def copy_into(linear: Linear, params: Mapping[str, Tensor], name: str) -> None:
    """`w_<name>` (in,out) and `b_<name>` (out) into an nn.Linear, whose weight is (out,in)."""
    with torch.no_grad():
        linear.weight.copy_(params[f"w_{name}"].T)
        if linear.bias is not None:
            linear.bias.copy_(params[f"b_{name}"])


def copy_into_one(linear: Linear, params: Mapping[str, Tensor]) -> None:
    """The projections of query, key and value, one after the other, into an nn.Linear that does all three."""
    names = ("query", "key", "value")
    with torch.no_grad():
        linear.weight.copy_(torch.cat([params[f"w_{name}"] for name in names], dim=1).T)
        if linear.bias is not None:
            linear.bias.copy_(torch.cat([params[f"b_{name}"] for name in names]))


def copy_into_half(linear: Linear, params: Mapping[str, Tensor], name: str, *, first: int) -> None:
    """As `copy_into`, where the layer's input stands in the columns from `first` on of a wider one; the rest are 0."""
    weight = params[f"w_{name}"]
    with torch.no_grad():
        linear.weight.zero_()
        linear.weight[:, first:first + weight.shape[0]] = weight.T
        if linear.bias is not None:
            linear.bias.copy_(params[f"b_{name}"])
