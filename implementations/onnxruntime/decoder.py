"""Operators in ONNX Runtime on CPU as decoders: present keys and values are the past ones of the next call.

Those of GroupQueryAttention are concatenated, or lie in a buffer that is past and present at once (`io_binding`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, Sequence, Tuple

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from ..onnx.decoder import Cache, stepped
from ..onnx.model import (
    DTYPES,
    IR_VERSION,
    PASTS,
    PRESENTS,
    Node,
    attention_model,
    heads_apart,
    heads_side_by_side,
)
from ..onnx.serving import Window, bounds
from .attention import session

Array = Any
Session = Any
Attributes = Tuple[Tuple[str, object], ...]

SLOTS = 128
INPUTS = ("query", "key", "value", *PASTS, "seqlens_k", "total_sequence_length", "", "", "", "attention_bias",
          "head_sink", "", "", "", "", "query_seqlens")
INTEGERS = ("seqlens_k", "total_sequence_length", "query_seqlens")
RANKS = {**dict.fromkeys((*PASTS, *PRESENTS, "attention_bias"), 4), **dict.fromkeys((*INTEGERS, "head_sink"), 1)}


class Buffer(NamedTuple):
    """Keys and values in one OrtValue each, (B,Hkv,SLOTS,width), of which the first `taken` slots are in use."""

    key: Any
    value: Any
    taken: int


def attend(query: Array, key: Array, value: Array, cache: Cache, *, mask: Array = None, bias: Array = None,
           causal: bool = False, scale: float | None = None, softcap: float | None = None,
           return_weights: bool = False) -> tuple[Any, ...]:
    """Attention-23 of inputs (B,H,L,D)."""
    return stepped(_outputs, query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale,
                   softcap=softcap, weights=return_weights)


def attend_25(query: Array, key: Array, value: Array, cache: Cache, *, mask: Array = None, bias: Array = None,
              causal: bool = False, scale: float | None = None, softcap: float | None = None, window: Window = None,
              return_weights: bool = False) -> tuple[Any, ...]:
    """Attention-25, which has a window."""
    return stepped(_outputs, query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale,
                   softcap=softcap, window=bounds(window), weights=return_weights, opset=25)


def group_query(query: Array, key: Array, value: Array, cache: Cache, *, mask: Array = None, bias: Array = None,
                causal: bool, scale: float | None = None, softcap: float | None = None, window: Window = None,
                sinks: Array = None) -> tuple[Array, Cache]:
    """GroupQueryAttention of (B,H,T,D), whose chunks may have several tokens of several entries (`query_seqlens`)."""
    del mask, causal  # declared: a mask arrives as bias, and every call is causal
    (_, H, _, D), width = query.shape, -(-query.shape[3] // 8) * 8
    past = cache or (_widened(key[:, :, :0], width), _widened(value[:, :, :0], width))
    inputs = {**_fed(query, key, value, past[0].shape[2], bias=bias, sinks=sinks), **dict(zip(PASTS, past))}
    run = _session(tuple(inputs), str(query.dtype), _attributes(query, key, scale, softcap, window))
    output, *present = run.run(None, inputs)
    return heads_apart(output, H)[..., :D], (present[0], present[1])


def group_query_buffer(query: Array, key: Array, value: Array, cache: Buffer | None, *, mask: Array = None,
                       bias: Array = None, causal: bool, scale: float | None = None, softcap: float | None = None,
                       window: Window = None, sinks: Array = None) -> tuple[Array, Buffer]:
    """The same with a buffer that is past and present at once."""
    del mask, causal  # declared: a mask arrives as bias, and every call is causal
    (_, H, T, D), width = query.shape, -(-query.shape[3] // 8) * 8
    held = cache or Buffer(_zeros(key, width), _zeros(value, width), 0)
    inputs = _fed(query, key, value, held.taken, bias=bias, sinks=sinks)
    run = _session((*inputs, *PASTS), str(query.dtype), _attributes(query, key, scale, softcap, window))
    bound = run.io_binding()
    for name, array in inputs.items():
        bound.bind_cpu_input(name, array)
    for past, present, buffer in zip(PASTS, PRESENTS, held):
        bound.bind_ortvalue_input(past, buffer)
        bound.bind_ortvalue_output(present, buffer)
    bound.bind_output("output")
    run.run_with_iobinding(bound)
    output = bound.get_outputs()[-1].numpy()
    return heads_apart(output, H)[..., :D], Buffer(held.key, held.value, held.taken + T)


def _zeros(new: Array, width: int) -> Any:  # noqa: ANN401  (an OrtValue)
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((*new.shape[:2], SLOTS, width), new.dtype))


def _fed(query: Array, key: Array, value: Array, past: int, *, bias: Array, sinks: Array) -> dict[str, Array]:
    """All inputs but the past. Heads narrower than a multiple of 8 get zeros beside them."""
    (B, _, T, D), total = query.shape, past + query.shape[2]
    named = {"query": query, "key": key, "value": value}
    inputs = {name: heads_side_by_side(_widened(array, -(-D // 8) * 8)) for name, array in named.items()}
    inputs.update(seqlens_k=np.full(B, total - 1, np.int32), total_sequence_length=np.array([total], np.int32),
                  query_seqlens=np.full(B, T, np.int32))
    if bias is not None:
        inputs["attention_bias"] = np.ascontiguousarray(bias)
    if sinks is not None:
        inputs["head_sink"] = sinks.astype(query.dtype)
    return inputs


def _widened(array: Array, width: int) -> Array:
    return np.pad(array, [(0, 0)] * 3 + [(0, width - array.shape[3])])


def _attributes(query: Array, key: Array, scale: float | None, softcap: float | None, window: Window) -> Attributes:
    """The scale is told, since heads may be padded. The window includes the query's own place."""
    reach = window[0] if window is not None and window[0] is not None else -2
    given = {"num_heads": query.shape[1], "kv_num_heads": key.shape[1],
             "scale": float(1 / np.sqrt(query.shape[3]) if scale is None else scale),
             "softcap": None if softcap is None else float(softcap), "local_window_size": reach + 1}
    return tuple((name, value) for name, value in given.items() if value is not None)


def _outputs(node: Node, inputs: dict[str, Array]) -> Sequence[Array]:
    outputs: Sequence[Array] = _attention(node).run(None, inputs)
    return outputs


@lru_cache(maxsize=256)
def _attention(node: Node) -> Session:
    return session(attention_model(node))


@lru_cache(maxsize=256)
def _session(given: tuple[str, ...], dtype: str, attributes: Attributes) -> Session:
    """A session whose model is one GroupQueryAttention; sizes are symbolic."""
    names, outputs = [name if name in given else "" for name in INPUTS], ["output", *PRESENTS]
    node = helper.make_node("GroupQueryAttention", names, outputs, domain="com.microsoft", **dict(attributes))
    tensors = [[_tensor(name, dtype) for name in part if name] for part in (names, outputs)]
    graph = helper.make_graph([node], "group_query", *tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return session(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


def _tensor(name: str, dtype: str) -> Any:  # noqa: ANN401  (onnx is not seen by mypy)
    kind = TensorProto.INT32 if name in INTEGERS else DTYPES[dtype]
    return helper.make_tensor_value_info(name, kind, [f"{name}{axis}" for axis in range(RANKS.get(name, 3))])
