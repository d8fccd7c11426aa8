"""GroupQueryAttention of the domain com.microsoft on CPU with a quantised cache: codes of 8 bits, or two in a byte.

The operator takes codes of the past, and numbers for as many new keys as queries, which it quantises itself by the same
scales. So the last T of the keys are handed over as code · scale, whose codes are what they were. Heads narrower than a
multiple of 8 get codes of zero beside them, and the scale is told.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ..onnx.model import DTYPES, IR_VERSION, heads_apart, heads_side_by_side
from .attention import session

Array = Any

MULTIPLE = 8
NIBBLES = 16
OFFSET = 8  # a nibble holds a code of -8 to 7 as 0 to 15; the even one of two features lies low
NAMES = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "", "", "", "", "",
         "k_scale", "v_scale")


def by_tensor(query: Array, key: Array, value: Array, *, scale: float | None = None, key_scale: Array = None,
              value_scale: Array = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and value (B,Hkv,S,D), a scale () of each, to (B,H,T,D)."""
    return _attend(query, key, value, scale, (_given(key_scale, 1), _given(value_scale, 1)))


def by_channel(query: Array, key: Array, value: Array, *, scale: float | None = None, key_scale: Array = None,
               value_scale: Array = None) -> Array:
    """The same with scales (Hkv,D)."""
    return _attend(query, key, value, scale, (
        _given(key_scale, (key.shape[1], key.shape[3])), _given(value_scale, (value.shape[1], value.shape[3]))))


def _attend(query: Array, key: Array, value: Array, scale: float | None, scales: tuple[Array, Array]) -> Array:
    D, T, S = query.shape[3], query.shape[2], key.shape[2]
    bits, heads = 4 if str(key.dtype) == "int4" else 8, query.shape[1]
    query, key, value = (_widened(array) for array in (query, key.astype(np.int8), value.astype(np.int8)))
    key_scale, value_scale = (each if each.ndim == 1 else _widened(each) for each in scales)
    new = [(codes[:, :, S - T:] * (by if by.ndim == 1 else by[:, None])).astype(query.dtype)
           for codes, by in ((key, key_scale), (value, value_scale))]
    fed = {**{name: heads_side_by_side(array) for name, array in zip(NAMES, (query, *new))},
           "past_key": _packed(key[:, :, :S - T], bits), "past_value": _packed(value[:, :, :S - T], bits),
           "seqlens_k": np.full(len(query), S - 1, np.int32), "total_sequence_length": np.array([S], np.int32),
           "k_scale": key_scale, "v_scale": value_scale}
    kind = "PER_TENSOR" if key_scale.ndim == 1 else "PER_CHANNEL"
    factor = float(1 / np.sqrt(D) if scale is None else scale)
    run = _session(str(query.dtype), bits, kind, (heads, key.shape[1]), factor)
    return heads_apart(run.run(None, fed)[0], heads)[..., :D]


def _given(scale: Array | None, shape: int | tuple[int, int]) -> Array:
    """Scales (1,) or (Hkv,D): 1 where there are none."""
    return np.ones(shape, np.float32) if scale is None else scale.reshape(shape)


def _widened(array: Array) -> Array:
    """With zeros along the last axis up to a multiple of 8."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % MULTIPLE)])


def _packed(codes: Array, bits: int) -> Array:
    """Codes (B,Hkv,P,D) as they are, or two to a byte, (B,Hkv,P,D/2)."""
    if bits != 4:
        return np.ascontiguousarray(codes)
    nibbles = codes.astype(np.int16) + OFFSET
    return (nibbles[..., ::2] + NIBBLES * nibbles[..., 1::2]).astype(np.uint8)


@lru_cache(maxsize=256)
def _session(dtype: str, bits: int, kind: str, heads: tuple[int, int], scale: float) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    """A session whose model is one node of the operator; sizes are symbolic."""
    node = helper.make_node("GroupQueryAttention", NAMES, ["output", "present_key", "present_value"],
                            domain="com.microsoft", num_heads=heads[0], kv_num_heads=heads[1],
                            k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits, causal=0, scale=scale)
    number, cache = DTYPES[dtype], TensorProto.INT8 if bits != 4 else TensorProto.UINT8
    ranks = {**dict.fromkeys(("query", "key", "value", "output"), (number, 3)),
             **dict.fromkeys(("past_key", "past_value", "present_key", "present_value"), (cache, 4)),
             **dict.fromkeys(("seqlens_k", "total_sequence_length"), (TensorProto.INT32, 1)),
             **dict.fromkeys(("k_scale", "v_scale"), (TensorProto.FLOAT, 1 if kind == "PER_TENSOR" else 2))}
    tensors = {name: helper.make_tensor_value_info(name, dtype_, [f"{name}{axis}" for axis in range(rank)])
               for name, (dtype_, rank) in ranks.items()}
    outputs = [tensors.pop(name) for name in ("output", "present_key", "present_value")]
    graph = helper.make_graph([node], "GroupQueryAttention", list(tensors.values()), outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return session(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))
