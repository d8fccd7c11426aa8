"""NumPy to PyTorch and back. bfloat16 travels as its bits, since torch and ml_dtypes know nothing of each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import ml_dtypes
import numpy as np
import torch

from attnspec.core.nouns import DType
from attnspec.problems.problem import Array

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class TorchLift:
    """Tensors on the CPU that share the arrays' memory, so that a mutation is seen."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:  # noqa: ARG002  (the protocol's)
        """Nothing is set: gradient mode and the rest are the subject's own business."""
        return contextlib.nullcontext()

    def hand(self, array: Array) -> object:
        """A tensor, any shape, with the array's memory, dtype and strides (those with negative ones are copied)."""
        if any(stride < 0 for stride in array.strides):
            array = array.copy()
        is_bfloat16 = array.dtype == _BFLOAT16
        tensor = torch.from_numpy(array.view(np.int16) if is_bfloat16 else array)
        return tensor.view(torch.bfloat16) if is_bfloat16 else tensor

    def read(self, value: object) -> Array:
        """The tensor's entries, any shape, detached from its graph; what is no tensor is read by NumPy."""
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        if tensor.dtype is torch.bfloat16:
            bits: Array = tensor.view(torch.int16).numpy()
            return bits.view(_BFLOAT16)
        array: Array = tensor.numpy()
        return array

    def gradients(self, function: Callable[..., object], inputs: Sequence[Any],
                  rows: Array) -> tuple[object, tuple[Array, ...] | None]:
        """The output detached, and the gradients in the shapes of the inputs, (B,H,T,D) of the query, zero for an input
        that it does not depend on; rows (T,).
        """
        leaves = [each.detach().clone().requires_grad_() for each in inputs]
        output = function(*leaves)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        chosen = torch.zeros_like(output)
        chosen[..., torch.from_numpy(rows), :] = 1
        found = torch.autograd.grad(output, leaves, chosen, materialize_grads=True)
        return output.detach(), tuple(self.read(each).astype(np.float64) for each in found)

    def forget(self) -> None:
        """Nothing was kept."""
