"""Codes for keys and values in ONNX Runtime on CPU: DequantizeLinear before Attention-23."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from onnxruntime import OrtValue

from ..onnx.codes import STORAGES, CodeNode, code_feeds, code_model, code_node
from ..onnx.model import feeds
from .attention import session

Array = Any


def by_head(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, key_scale: Array = None, value_scale: Array = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (Hkv,) of each, to (B,H,T,Dv)."""
    node = code_node(query, key, mask, bias, causal=causal, scale=scale)
    return _run(node, code_feeds(feeds(query, key, value, mask, bias), key_scale, value_scale))


def by_token(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
             scale: float | None = None, key_scale: Array = None, value_scale: Array = None) -> Array:
    """The same with scales (B,Hkv,S)."""
    widths, dense = (key.shape[-1], value.shape[-1]), feeds(query, key, value, mask, bias)
    node = code_node(query, key, mask, bias, causal=causal, scale=scale, widths=widths)
    return _run(node, code_feeds(dense, key_scale, value_scale, axes=(0, 1, 2)))


def _run(node: CodeNode, inputs: dict[str, Array]) -> Array:
    """The output (B,H,T,Dv). Formats of eight bits that NumPy lacks are handed over as their bytes."""
    values = {name: _ort_value(array, node) if name.endswith("codes") else OrtValue.ortvalue_from_numpy(
        np.ascontiguousarray(array)) for name, array in inputs.items()}
    return _session(node).run_with_ort_values(None, values)[0].numpy()


def _ort_value(codes: Array, node: CodeNode) -> OrtValue:
    if codes.dtype == np.int8:
        return OrtValue.ortvalue_from_numpy(codes)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(codes.view(np.uint8), STORAGES[node.storage])


@lru_cache(maxsize=256)
def _session(node: CodeNode) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    return session(code_model(node))
