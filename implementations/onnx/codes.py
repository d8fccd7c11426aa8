"""ONNX models in which DequantizeLinear stands before the keys and the values of an Attention node.

Its scales are of the dtype of the query, and so are the dequantised keys. A scale for each head is one along axis 1;
one for each token is one for each block of D entries along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from .model import DTYPES, Model, Node, attention_model, feeds, node_of

Array = Any

STORAGES = {"int8": TensorProto.INT8, "int4": TensorProto.INT4, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
            "float8_e5m2": TensorProto.FLOAT8E5M2}


@dataclass(frozen=True)
class CodeNode:
    """An Attention node behind two of DequantizeLinear.

    storage: the NumPy name of the codes' dtype.  widths: of keys and values where each token has a scale; None where
    each head has one.
    """

    attention: Node
    storage: str
    widths: tuple[int, int] | None = None


def by_head(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, key_scale: Array = None, value_scale: Array = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,Dv), scales (Hkv,) of each, to (B,H,T,Dv)."""
    node = code_node(query, key, mask, bias, causal=causal, scale=scale)
    return _evaluator(node).run(None, code_feeds(feeds(query, key, value, mask, bias), key_scale, value_scale))[0]


def code_node(query: Array, key: Array, mask: Array | None, bias: Array | None, *, causal: bool, scale: float | None,
              widths: tuple[int, int] | None = None) -> CodeNode:
    """The node for these inputs."""
    return CodeNode(node_of(query, mask, bias, causal=causal, scale=scale), str(key.dtype), widths)


def code_feeds(dense: dict[str, Array], key_scale: Array | None, value_scale: Array | None, *,
               axes: tuple[int, ...] = (1,)) -> dict[str, Array]:
    """The inputs by name, of those of the Attention node: codes (B,Hkv,S,D) and scales (Hkv,) or (B,Hkv,S,1). axes: of
    codes along which scales differ.
    """
    given = [np.ones([dense[name].shape[axis] for axis in axes]) if each is None else each
             for name, each in zip("KV", (key_scale, value_scale))]
    codes = {f"{name} codes": np.ascontiguousarray(dense[name]) for name in "KV"}
    rank = 1 if axes == (1,) else 4
    scales = {f"{name} scale": each.astype(dense["Q"].dtype).reshape(*each.shape, *[1] * (rank - each.ndim))
              for name, each in zip("KV", given)}
    return {**{name: array for name, array in dense.items() if name not in ("K", "V")}, **codes, **scales}


@lru_cache(maxsize=256)
def _evaluator(node: CodeNode) -> ReferenceEvaluator:
    return ReferenceEvaluator(code_model(node))


@lru_cache(maxsize=512)
def code_model(node: CodeNode) -> Model:
    """A model whose inputs are Q, codes and scales of K and V, and what else the Attention node has."""
    dense = attention_model(node.attention)
    nodes, inputs = [], [each for each in dense.graph.input if each.name not in ("K", "V")]
    for place, name in enumerate("KV"):
        where = {"axis": 1} if node.widths is None else {"axis": 3, "block_size": node.widths[place]}
        nodes.append(helper.make_node("DequantizeLinear", [f"{name} codes", f"{name} scale"], [name], **where))
        inputs += [_tensor(f"{name} codes", STORAGES[node.storage], 4),
                   _tensor(f"{name} scale", DTYPES[node.attention.dtype], 1 if node.widths is None else 4)]
    graph = helper.make_graph([*nodes, *dense.graph.node], "attention", inputs, list(dense.graph.output))
    return helper.make_model(graph, opset_imports=list(dense.opset_import), ir_version=dense.ir_version)


def _tensor(name: str, dtype: int, rank: int) -> Any:  # noqa: ANN401  (onnx is not seen by mypy)
    return helper.make_tensor_value_info(name, dtype, [f"{name} {axis}" for axis in range(rank)])
