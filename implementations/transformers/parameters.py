"""Puts parameters of the convention x @ W + b into modules, which keep W transposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Tensor = Any  # torch is not seen by mypy
Linear = Any


def copy_into(linear: Linear, params: Mapping[str, Tensor], name: str) -> None:
    """`w_<name>` (in,out) and `b_<name>` (out), if the layer has one, into a Linear, whose weight is (out,in)."""
    with torch.no_grad():
        linear.weight.copy_(params[f"w_{name}"].T)
        if linear.bias is not None:
            linear.bias.copy_(params[f"b_{name}"])
