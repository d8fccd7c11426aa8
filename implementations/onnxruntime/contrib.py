"""ONNX Runtime's own operators of the domain com.microsoft on CPU: MultiHeadAttention, and Attention, a whole layer.

Their masks proper tell padding, (B,S) or (B,T,S); a mask per head goes into attention_bias, to be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import helper

from ..onnx.model import DTYPES, IR_VERSION, heads_apart, heads_side_by_side
from .attention import session

Array = Any


def multi_head_attention(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                         scale: float | None = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv), which the operator takes as (B,L,H·D)."""
    return unidirectional(query, key, value, bias=bias, mask=mask, scale=scale)


def unidirectional(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                   causal: bool = False, scale: float | None = None) -> Array:
    """As `multi_head_attention`, with its causal flag."""
    del mask  # declared: it arrives as bias
    heads = query.shape[1]
    flat = {"query": query, "key": key, "value": value}
    inputs = {name: heads_side_by_side(array) for name, array in flat.items()}
    if bias is not None:
        inputs["attention_bias"] = bias
    names = ("query", "key", "value", "", "", "attention_bias" if bias is not None else "")
    run = _session("MultiHeadAttention", names, str(query.dtype), _attributes(heads, scale, causal))
    return heads_apart(run.run(None, inputs)[0], heads)


def attention(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, bias: Array = None,  # noqa: ARG001  (key and value are the query)
              mask: Array = None, causal: bool = False) -> Array:
    """X (B,T,M) to (B,T,M): the operator projects its input to query, key and value; a product projects its heads."""
    del mask  # declared: it arrives as bias
    inputs = {"input": query, "weights": _side_by_side(params, "w"), "bias": _side_by_side(params, "b"),
              "w_out": params["w_out"], "b_out": params["b_out"]}
    if bias is not None:
        inputs["attention_bias"] = bias
    names = ("input", "weights", "bias", "", "", "attention_bias" if bias is not None else "")
    widths = tuple(params[f"w_{name}"].shape[1] for name in ("query", "key", "value"))
    attributes = (*_attributes(heads, None, causal), ("qkv_hidden_sizes", widths))
    return _session("Attention", names, str(query.dtype), attributes).run(None, inputs)[0]


def _side_by_side(params: Mapping[str, Array], letter: str) -> Array:
    return np.concatenate([params[f"{letter}_{name}"] for name in ("query", "key", "value")], axis=-1)


def _attributes(heads: int, scale: float | None, causal: bool) -> tuple[tuple[str, object], ...]:
    given = {"num_heads": heads, "unidirectional": int(causal), "scale": None if scale is None else float(scale)}
    return tuple((name, value) for name, value in given.items() if value is not None)


@lru_cache(maxsize=256)
def _session(operator: str, names: tuple[str, ...], dtype: str, attributes: tuple[tuple[str, object], ...]) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    """A session whose model is one node of the operator, and after a layer's its projection; sizes are symbolic."""
    last = operator == "MultiHeadAttention"
    nodes = [helper.make_node(operator, names, ["output" if last else "heads"], domain="com.microsoft",
                              **dict(attributes))]
    if not last:
        names += ("w_out", "b_out")
        nodes += [helper.make_node("MatMul", ["heads", "w_out"], ["projected"]),
                  helper.make_node("Add", ["projected", "b_out"], ["output"])]
    inputs = [helper.make_tensor_value_info(name, DTYPES[dtype], _axes(name)) for name in names if name]
    output = helper.make_tensor_value_info("output", DTYPES[dtype], _axes("output"))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, operator, inputs, [output])
    return session(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


def _axes(name: str) -> list[str]:
    """Names for the axes of an input: a vector, a matrix, (B,L,width) or (B,H,T,S)."""
    rank = {"bias": 1, "b_out": 1, "weights": 2, "w_out": 2, "attention_bias": 4}.get(name, 3)
    return [f"{name}{axis}" for axis in range(rank)]
