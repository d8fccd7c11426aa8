"""ONNX models of one Attention node. Every size is symbolic, so one model fits all shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = Any
Model = Any

WEIGHTS = 3  # qk_matmul_output_mode: the fourth output is what comes out of the softmax
DTYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
          "bfloat16": TensorProto.BFLOAT16, "bool": TensorProto.BOOL}
PASTS, PRESENTS, LENGTHS = ("past_key", "past_value"), ("present_key", "present_value"), "nonpad_kv_seqlen"
IR_VERSION = 10  # of onnx 1.16, which the oldest evaluators in question read


@dataclass(frozen=True)
class Node:
    """What tells one Attention node from another.

    mask: the dtype of attn_mask, "" without one.  heads: (H, Hkv) of inputs (B,L,heads·D), None for (B,heads,L,D).
    window: the bounds of opset 25, left and right, -1 for none.  past: whether past_key and past_value are inputs.
    lengths: whether nonpad_kv_seqlen is one.
    """

    dtype: str
    mask: str = ""
    causal: bool = False
    scale: float | None = None
    softcap: float | None = None
    weights: bool = False
    heads: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    past: bool = False
    lengths: bool = False
    opset: int = 23


def node_of(query: Array, mask: Array | None, bias: Array | None, **settings: Any) -> Node:  # noqa: ANN401  (a node's)
    """The node for these inputs."""
    kind = "" if mask is None and bias is None else "bool" if bias is None else str(query.dtype)
    return Node(str(query.dtype), kind, **settings)


def feeds(query: Array, key: Array, value: Array, mask: Array | None, bias: Array | None) -> dict[str, Array]:
    """The inputs by name. There is one for mask and bias: boolean (True = may attend), or one to be added."""
    attn_mask = mask if bias is None else bias if mask is None else np.where(mask, bias, np.array(-np.inf, bias.dtype))
    named = {"Q": query, "K": key, "V": value}
    return named if attn_mask is None else {**named, "attn_mask": attn_mask}


@lru_cache(maxsize=512)
def attention_model(node: Node) -> Model:
    """A model whose inputs are Q, K, V and what else the node has; whose outputs are Y, with a past the present keys
    and values, and weights if asked for.
    """
    dtype, rank = DTYPES[node.dtype], 4 if node.heads is None else 3
    inputs = [_tensor(name, dtype, rank) for name in "QKV"] + _optional_inputs(node)
    presents = list(PRESENTS) if node.past else [""] * 2 if node.weights else []
    outputs = ["Y", *presents, *(["weights"] if node.weights else [])]
    attention = helper.make_node("Attention", _in_order({each.name for each in inputs}), outputs, **_attributes(node))
    tensors = [_tensor("Y", dtype, rank), *(_tensor(name, dtype, 4) for name in outputs[1:] if name)]
    graph = helper.make_graph([attention], "attention", inputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)], ir_version=IR_VERSION)


def _optional_inputs(node: Node) -> list[onnx.ValueInfoProto]:
    masks = [_tensor("attn_mask", DTYPES[node.mask], 4)] if node.mask else []
    pasts = [_tensor(name, DTYPES[node.dtype], 4) for name in PASTS] if node.past else []
    return masks + pasts + ([_tensor(LENGTHS, TensorProto.INT64, 1)] if node.lengths else [])


def _in_order(names: set[str]) -> list[str]:
    """The inputs by place; one that is missing before others is the empty name."""
    places = ["Q", "K", "V", "attn_mask", *PASTS, LENGTHS]
    last = max(places.index(name) for name in names)
    return [name if name in names else "" for name in places[:last + 1]]


def _attributes(node: Node) -> dict[str, object]:
    """Those that differ from their defaults."""
    heads = node.heads or (None, None)
    window = node.window or (None, None)
    attributes = {"is_causal": 1 if node.causal else None, "scale": _float(node.scale), "softcap": _float(node.softcap),
                  "qk_matmul_output_mode": WEIGHTS if node.weights else None,
                  "q_num_heads": heads[0], "kv_num_heads": heads[1],
                  "left_window_size": window[0], "right_window_size": window[1]}
    return {name: value for name, value in attributes.items() if value is not None}


def _float(number: float | None) -> float | None:
    """A whole number would become an attribute of integers, which passes for none at all."""
    return None if number is None else float(number)


def _tensor(name: str, dtype: int, rank: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, [f"{name}{axis}" for axis in range(rank)])


def heads_side_by_side(array: Array) -> Array:
    """(B,heads,L,D) to (B,L,heads·D)."""
    B, heads, L, D = array.shape
    return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(B, L, heads * D)


def heads_apart(array: Array, heads: int) -> Array:
    """(B,L,heads·D) to (B,heads,L,D)."""
    B, L, width = array.shape
    return array.reshape(B, L, heads, width // heads).swapaxes(1, 2)
