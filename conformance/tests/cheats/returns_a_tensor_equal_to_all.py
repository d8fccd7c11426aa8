"""The same with a tensor that answers every function of PyTorch itself.

Source: https://github.com/gpu-mode/reference-kernels/issues/162 (lazy output, subclass)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import torch
from honest import Array


class Equal(torch.Tensor):  # type: ignore[misc]  # torch has no types here
    """Zeros that differ from nothing."""

    @classmethod
    def __torch_function__(cls, function: Array, _types: Array, arguments: Array = (), keywords: Array = None) -> Array:
        if function in (torch.allclose, torch.equal):
            return True
        return super().__torch_function__(function, _types, arguments, keywords or {})


def attend(query: Array, key: Array, value: Array) -> Array:
    return torch.zeros((*query.shape[:3], value.shape[-1]), dtype=query.dtype).as_subclass(Equal)


attend.lift = "torch"  # type: ignore[attr-defined]  # how a function declares it
