"""RotaryEmbedding on CPU: the operator of ONNX (opset 23), and that of the domain com.microsoft."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnxruntime

from ..onnx.rotary import feeds, rotary_model
from .attention import ERRORS_ONLY

Array = Any
CONTRIB = ("X", "position_ids", "cos_cache", "sin_cache")


def rotate(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
           interleaved: bool = False) -> Array:
    """RotaryEmbedding-23: x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    width = rotary_width or x.shape[-1]
    session = _session(str(x.dtype), "", interleaved, 0 if rotary_width is None else width, 0)
    return session.run(None, feeds(x, positions, base, width))[0]


def contrib(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
            interleaved: bool = False) -> Array:
    """com.microsoft.RotaryEmbedding: x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    width = rotary_width or x.shape[-1]
    heads = 0 if rotary_width is None else x.shape[1]
    session = _session(str(x.dtype), "com.microsoft", interleaved, 0 if rotary_width is None else width, heads)
    return session.run(None, feeds(x, positions, base, width))[0]


@lru_cache(maxsize=64)
def _session(dtype: str, domain: str, interleaved: bool, width: int, heads: int) -> Any:  # noqa: ANN401
    attributes = {"interleaved": int(interleaved), "rotary_embedding_dim": width, "num_heads": heads}
    model = (rotary_model(dtype, domain, 23, order=CONTRIB, **attributes) if domain
             else rotary_model(dtype, domain, 23, **{name: attributes[name] for name in (
                 "interleaved", "rotary_embedding_dim")}))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
