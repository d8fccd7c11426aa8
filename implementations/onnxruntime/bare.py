"""The operator Attention-23 in ONNX Runtime as decoders export it: query, key and value, and nothing optional."""

from __future__ import annotations

from typing import Any

from . import attention

Array = Any


def attend(query: Array, key: Array, value: Array) -> Array:
    """Attention-23 of inputs (B,H,L,D)."""
    return attention.attend(query, key, value)
