"""OpenVINO's ScaledDotProductAttention-13 on CPU with its sixth input, a sink, in execution mode ACCURACY.

The function of opset13 has no parameter for it, so the node is made by the factory that the function calls, too. A sink
stands behind attention_mask and scale, which are then always given.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.utils.node_factory import NodeFactory

from .attention import ACCURACY, DYNAMIC, attend, joined_mask

Array = Any
Model = Any


def with_sinks(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               scale: float | None = None, sinks: Array = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) and sinks (H,) to (B,H,T,Dv)."""
    if sinks is None:
        return attend(query, key, value, mask=mask, bias=bias, scale=scale)
    dtype = query.dtype
    given = joined_mask(mask, bias)
    given = np.zeros((1, 1, 1, 1), dtype) if given is None else given
    factor = np.array(query.shape[-1] ** -0.5 if scale is None else scale, dtype)
    sink = sinks.astype(dtype).reshape(1, -1, 1, 1)
    model = _compiled(str(dtype), str(given.dtype))
    return np.array(model([np.asarray(array, order="C") for array in (query, key, value, given, factor, sink)])[0])


@lru_cache(maxsize=16)
def _compiled(dtype: str, mask: str) -> Model:
    number = np.dtype(dtype)
    inputs = [*(ops.parameter(DYNAMIC, number) for _ in range(3)), ops.parameter(DYNAMIC, np.dtype(mask)),
              ops.parameter([], number), ops.parameter(DYNAMIC, number)]
    node = NodeFactory("opset13").create("ScaledDotProductAttention", inputs, {"causal": False})
    return ov.Core().compile_model(ov.Model([node], inputs), "CPU", ACCURACY)
