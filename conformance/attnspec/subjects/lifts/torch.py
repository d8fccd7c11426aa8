"""NumPy to PyTorch and back. bfloat16 travels as its bits, since torch and ml_dtypes know nothing of each other."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import ml_dtypes
import numpy as np
import torch

from attnspec.ground.nouns import DType
from attnspec.problems.problem import Array

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class TorchLift:
    """Tensors on the CPU that share the arrays' memory, so that a mutation is seen."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:  # noqa: ARG002  (the protocol's)
        """Nothing is set: gradient mode and the rest are the subject's own business."""
        return contextlib.nullcontext()

    def hand(self, array: Array) -> object:
        """A tensor with the array's memory, dtype and strides (torch has no negative ones: those are copied)."""
        if any(stride < 0 for stride in array.strides):
            array = array.copy()
        is_bfloat16 = array.dtype == _BFLOAT16
        tensor = torch.from_numpy(array.view(np.int16) if is_bfloat16 else array)
        return tensor.view(torch.bfloat16) if is_bfloat16 else tensor

    def read(self, value: object) -> Array:
        """The tensor's entries, detached from its graph; what is no tensor is read by NumPy."""
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        if tensor.dtype is torch.bfloat16:
            bits: Array = tensor.view(torch.int16).numpy()
            return bits.view(_BFLOAT16)
        array: Array = tensor.numpy()
        return array

    def forget(self) -> None:
        """Nothing was kept."""
