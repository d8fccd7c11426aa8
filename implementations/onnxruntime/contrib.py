"""ONNX Runtime's own operators of the domain com.microsoft on CPU: MultiHeadAttention, and Attention, a whole layer.

Their masks proper tell padding, (B,S) or (B,T,S); a mask per head goes into attention_bias, to be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.adapters.onnx.model import DTYPES, IR_VERSION, heads_apart, heads_side_by_side
from attnspec.adapters.onnxruntime.attention import session
from onnx import helper

Array = Any


def multi_head_attention(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                         causal: bool = False, scale: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv), which the operator takes as (B,L,H·D)."""
    del mask  # declared: it arrives as bias
    heads = query.shape[1]
    flat = {"query": query, "key": key, "value": value}
    inputs = {name: heads_side_by_side(array) for name, array in flat.items()}
    if bias is not None:
        inputs["attention_bias"] = bias
    attributes = _attributes(heads, scale, causal)
    names = ("query", "key", "value", "", "", "attention_bias" if bias is not None else "")
    run = _session("MultiHeadAttention", names, str(query.dtype), attributes)
    return heads_apart(run.run(None, inputs)[0], heads)


def attention(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, bias: Array = None,  # noqa: ARG001  (key and value are the query)
              mask: Array = None, causal: bool = False, scale: float | None = None) -> Array:
    """X (B,T,M) to (B,T,H·D): projections of query, key and value side by side, and none of the output."""
    del mask  # declared: it arrives as bias
    weights = np.concatenate([params["w_query"], params["w_key"], params["w_value"]], axis=1)
    biases = np.concatenate([params["b_query"], params["b_key"], params["b_value"]])
    inputs = {"input": query, "weights": weights, "bias": biases}
    if bias is not None:
        inputs["attention_bias"] = bias
    names = ("input", "weights", "bias", "", "", "attention_bias" if bias is not None else "")
    widths = tuple(params[f"w_{name}"].shape[1] for name in ("query", "key", "value"))
    attributes = (*_attributes(heads, scale, causal), ("qkv_hidden_sizes", widths))
    return _session("Attention", names, str(query.dtype), attributes).run(None, inputs)[0]


def _attributes(heads: int, scale: float | None, causal: bool) -> tuple[tuple[str, object], ...]:
    given = {"num_heads": heads, "unidirectional": int(causal), "scale": scale}
    return tuple((name, value) for name, value in given.items() if value is not None)


@lru_cache(maxsize=256)
def _session(operator: str, names: tuple[str, ...], dtype: str, attributes: tuple[tuple[str, object], ...]) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    """A session whose model is one node of the operator; every size is symbolic."""
    node = helper.make_node(operator, names, ["output"], domain="com.microsoft", **dict(attributes))
    inputs = [helper.make_tensor_value_info(name, DTYPES[dtype], _axes(name)) for name in names if name]
    output = helper.make_tensor_value_info("output", DTYPES[dtype], _axes("output"))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], operator, inputs, [output])
    return session(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


def _axes(name: str) -> list[str]:
    """Names for the axes of an input: a vector, a matrix, (B,L,width) or (B,H,T,S)."""
    rank = {"bias": 1, "weights": 2, "attention_bias": 4}.get(name, 3)
    return [f"{name}{axis}" for axis in range(rank)]
