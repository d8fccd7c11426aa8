"""PyTorch's tensors, read without importing PyTorch."""

from __future__ import annotations

import sys
from typing import Any

from ..frames import Entries


def is_tensor(value: Any) -> bool:
    """Whether it is one. Where PyTorch is not imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def read(value: Any) -> Entries:
    """The tensor's entries, any shape, detached from its graph and copied from its device."""
    torch = sys.modules["torch"]
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return Entries("bfloat16", tensor.view(torch.int16).numpy().view("uint16"))
    array = tensor.numpy()
    return Entries(array.dtype.name, array)
