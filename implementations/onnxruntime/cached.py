"""MultiHeadAttention and GroupQueryAttention of the domain com.microsoft on CPU, with a past, lengths and sinks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional, Tuple

import numpy as np
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from ..onnx.model import DTYPES, IR_VERSION, PASTS, PRESENTS, heads_apart, heads_side_by_side
from .attention import session

Array = Any
Attributes = Tuple[Tuple[str, object], ...]
Window = Optional[Tuple[Optional[int], Optional[int]]]

RANKS = {"attention_bias": 4, "past_key": 4, "past_value": 4, "seqlens_k": 1, "total_sequence_length": 1,
         "head_sink": 1, "key_padding_mask": 1}
INTEGERS = ("seqlens_k", "total_sequence_length", "key_padding_mask")
PLACES = {
    "MultiHeadAttention": ("query", "key", "value", "", "key_padding_mask", "attention_bias", *PASTS),
    "GroupQueryAttention": ("query", "key", "value", *PASTS, "seqlens_k", "total_sequence_length", "", "", "",
                            "attention_bias", "head_sink"),
}


def multi_head_attention(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                         causal: bool = False, scale: float | None = None, past_key: Array = None,
                         past_value: Array = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv), past keys and values (B,H,P,D) and (B,H,P,Dv)."""
    del mask  # declared: it arrives as bias
    inputs = {"attention_bias": bias, "past_key": past_key, "past_value": past_value}
    return _answer("MultiHeadAttention", {**_flat(query, key, value), **inputs}, query.shape[1],
                   unidirectional=int(causal), scale=_float(scale))


def key_padding(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                causal: bool = False, scale: float | None = None, key_lengths: Array = None) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) and key_padding_mask, the number of keys (B,)."""
    del mask  # declared: it arrives as bias
    inputs = {"attention_bias": bias, "key_padding_mask": key_lengths}
    return _answer("MultiHeadAttention", {**_flat(query, key, value), **inputs}, query.shape[1],
                   unidirectional=int(causal), scale=_float(scale))


def group_query_attention(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                          causal: bool = False, scale: float | None = None, softcap: float | None = None,
                          window: Window = None, sinks: Array = None, key_lengths: Array = None,
                          past_key: Array = None, past_value: Array = None) -> Array:
    """A prompt of as many keys as queries, right-padded if there are `key_lengths`; or new tokens behind a past, every
    entry's of one length. Heads narrower than a multiple of 8 get zeros beside them, and the scale is told.
    """
    del mask  # declared: it arrives as bias
    (B, heads, T, D), width = query.shape, -(-query.shape[3] // 8) * 8
    total = T if past_key is None else past_key.shape[2] + T
    lengths = np.full(B, total) if key_lengths is None else key_lengths
    inputs = {"attention_bias": bias, "head_sink": None if sinks is None else sinks.astype(query.dtype),
              "past_key": _widened(past_key, width), "past_value": _widened(past_value, width),
              "seqlens_k": (lengths - 1).astype(np.int32), "total_sequence_length": np.array([total], np.int32)}
    flat = _flat(*(_widened(array, width) for array in (query, key, value)))
    reach = window[0] if window is not None and window[0] is not None else -2
    output = _answer("GroupQueryAttention", {**flat, **inputs}, heads, kv_num_heads=key.shape[1],
                     causal=None if causal and _is_always_causal() else int(causal), softcap=_float(softcap),
                     scale=_float(1 / np.sqrt(D) if scale is None else scale), local_window_size=reach + 1)
    return output[..., :D]


def prompt(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None, causal: bool = False,
           scale: float | None = None, softcap: float | None = None, window: Window = None, sinks: Array = None,
           key_lengths: Array = None) -> Array:
    """The same without a past."""
    return group_query_attention(query, key, value, bias=bias, mask=mask, causal=causal, scale=scale, softcap=softcap,
                                 window=window, sinks=sinks, key_lengths=key_lengths)


def behind_past(query: Array, key: Array, value: Array, *, bias: Array = None, mask: Array = None,
                scale: float | None = None, softcap: float | None = None, past_key: Array = None,
                past_value: Array = None) -> Array:
    """The same behind a past, not causal. New keys are as many as queries: those before them are counted as past."""
    if past_key is not None:
        key, value = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
    (past_key, key), (past_value, value) = (np.split(array, [key.shape[2] - query.shape[2]], axis=2)
                                            for array in (key, value))
    return group_query_attention(query, key, value, bias=bias, mask=mask, scale=scale, softcap=softcap,
                                 past_key=past_key, past_value=past_value)


@lru_cache(maxsize=1)
def _is_always_causal() -> bool:
    """Whether GroupQueryAttention has no causal flag yet: releases before 1.30 know no other attention."""
    known = {schema.name: schema for schema in get_all_operator_schema()}
    return "causal" not in known["GroupQueryAttention"].attributes


def _widened(array: Array | None, width: int) -> Array | None:
    return None if array is None else np.pad(array, [(0, 0)] * 3 + [(0, width - array.shape[3])])


def _flat(query: Array, key: Array, value: Array) -> dict[str, Array]:
    """The three as (B,L,H·D)."""
    named = {"query": query, "key": key, "value": value}
    return {name: heads_side_by_side(array) for name, array in named.items()}


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


def _answer(operator: str, inputs: dict[str, Array | None], heads: int, **attributes: Any) -> Array:  # noqa: ANN401  (an operator's)
    """The operator's first output (B,H,T,Dv); attributes that are None are left out."""
    fed = {name: array for name, array in inputs.items() if array is not None}
    places = PLACES[operator]
    last = max(place for place, name in enumerate(places) if name in fed)
    names = tuple(name if name in fed else "" for name in places[:last + 1])
    given = {"num_heads": heads, **{name: value for name, value in attributes.items() if value is not None}}
    run = _session(operator, names, str(fed["query"].dtype), tuple(given.items()))
    return heads_apart(run.run(None, fed)[0], heads)


@lru_cache(maxsize=256)
def _session(operator: str, names: tuple[str, ...], dtype: str, attributes: Attributes) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    """A session whose model is one node of the operator; sizes are symbolic."""
    presents = ["output", *(PRESENTS if "past_key" in names or operator == "GroupQueryAttention" else [])]
    node = helper.make_node(operator, names, presents, domain="com.microsoft", **dict(attributes))
    inputs = [_tensor(name, TensorProto.INT32 if name in INTEGERS else DTYPES[dtype]) for name in names if name]
    outputs = [_tensor(name, DTYPES[dtype], 3 if name == "output" else 4) for name in presents]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], operator, inputs, outputs)
    return session(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


def _tensor(name: str, dtype: int, rank: int | None = None) -> Any:  # noqa: ANN401  (onnx is not seen by mypy)
    rank = rank or RANKS.get(name, 3)
    return helper.make_tensor_value_info(name, dtype, [f"{name}{axis}" for axis in range(rank)])
