"""The same from PyTorch's allocator.

Source: https://sakana.ai/ai-cuda-engineer/ (the update on what its evaluation missed)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import torch
from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    return torch.empty((*query.shape[:3], value.shape[-1]), dtype=query.dtype)


attend.lift = "torch"  # type: ignore[attr-defined]  # how a function declares it
