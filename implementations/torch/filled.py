"""A module with the parameters that were handed over in the place of its own, so that gradients reach them.

They are of the convention x @ W + b; modules keep W transposed. To copy them would cut the way back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.func import functional_call

Tensor = Any  # torch is not seen by mypy
Module = Any

PARTS = ("query", "key", "value")


class Filled:
    """A module that is called with these tensors, by the names of its parameters; of others it has its own."""

    def __init__(self, module: Module, tensors: Mapping[str, Tensor]) -> None:
        self._module = module
        self._tensors = dict(tensors)

    def train(self, mode: bool = True) -> Filled:
        """The same in training mode, or in evaluation mode."""
        self._module.train(mode)
        return self

    def eval(self) -> Filled:
        """The same in evaluation mode."""
        return self.train(mode=False)

    def __call__(self, *inputs: Tensor, **keywords: object) -> Any:  # noqa: ANN401  (what the module returns)
        """What the module makes of it, (B,T,M) of the query."""
        return functional_call(self._module, self._tensors, inputs, keywords)


def linear(params: Mapping[str, Tensor], name: str, module: str = "") -> dict[str, Tensor]:
    """`w_<name>` (in,out) and `b_<name>` (out), where there is one, as an nn.Linear has them."""
    found = {f"{module or name}.weight": transposed(params, name)}
    return {**found, f"{module or name}.bias": params[f"b_{name}"]} if f"b_{name}" in params else found


def transposed(params: Mapping[str, Tensor], name: str) -> Tensor:
    """`w_<name>` (in,out) as (out,in), which lies as a module's own weight does."""
    return params[f"w_{name}"].T.contiguous()


def in_one(params: Mapping[str, Tensor]) -> Tensor:
    """The three input projections in one weight, (3M,M)."""
    return torch.cat([params[f"w_{part}"] for part in PARTS], dim=1).T.contiguous()
