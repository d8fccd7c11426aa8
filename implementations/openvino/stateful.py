"""OpenVINO's stateful decoder on CPU: keys and values live in variables of the model, which the plugin stores as codes.

ReadValue, Concat, ScaledDotProductAttention-13 and Assign, as exported language models have them; the CPU plugin puts
them together into one node that owns the cache. A cache is an inference request, which each call changes in place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Tuple

import numpy as np
import openvino as ov
from openvino import opset13
from openvino.op import util

from .attention import THREADS, joined_mask

Array = Any
Request = Any
Model = Any
Chosen = Tuple[Tuple[str, Any], ...]
"""Properties of the plugin, by name."""

U4: Chosen = (("KV_CACHE_PRECISION", "u4"),)
F32: Chosen = (("KV_CACHE_PRECISION", "f32"),)
GROUPS: Chosen = (("KEY_CACHE_GROUP_SIZE", 32), ("VALUE_CACHE_GROUP_SIZE", 32))

FLOAT32 = {**THREADS, "INFERENCE_PRECISION_HINT": "f32"}
"""In the default execution mode, where the precision of the cache is not touched: u8 unless it is set."""


def attend_u8(query: Array, key: Array, value: Array, cache: Request = None, *, mask: Array = None, bias: Array = None,
              causal: bool = False, scale: float | None = None) -> tuple[Array, Request]:
    """Query (B,H,T,D), key (B,H,T,D) and value (B,H,T,Dv), to (B,H,T,Dv) and the cache, by default in UINT8."""
    return _step(query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale, chosen=())


def attend_u4(query: Array, key: Array, value: Array, cache: Request = None, *, mask: Array = None, bias: Array = None,
              causal: bool = False, scale: float | None = None) -> tuple[Array, Request]:
    """The same with KV_CACHE_PRECISION=u4."""
    return _step(query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale, chosen=U4)


def attend_u8_in_groups(query: Array, key: Array, value: Array, cache: Request = None, *, mask: Array = None,
                        bias: Array = None, causal: bool = False,
                        scale: float | None = None) -> tuple[Array, Request]:
    """As `attend_u8`, each 32 features of a token with a scale of their own."""
    return _step(query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale, chosen=GROUPS)


def attend_f32(query: Array, key: Array, value: Array, cache: Request = None, *, mask: Array = None, bias: Array = None,
               causal: bool = False, scale: float | None = None) -> tuple[Array, Request]:
    """The same with KV_CACHE_PRECISION=f32: nothing is stored as codes."""
    return _step(query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale, chosen=F32)


class _Cache:
    """An inference request, and how many tokens it has stored."""

    def __init__(self, request: Request) -> None:
        self.request, self.stored = request, 0


def _step(query: Array, key: Array, value: Array, cache: _Cache | None, *, mask: Array, bias: Array, causal: bool,
          scale: float | None, chosen: Chosen) -> tuple[Array, _Cache]:
    """One call: query (B,H,T,D), key (B,H,T,D) and value (B,H,T,Dv) to (B,H,T,Dv) and the cache."""
    (B, H, T, D), factor = query.shape, query.shape[3] ** -0.5 if scale is None else scale
    if cache is None:
        compiled = _compiled(H, D, value.shape[3], str(query.dtype), chosen)
        cache = _Cache(compiled.create_infer_request())
    added = _added(query, cache.stored, joined_mask(mask, bias), causal=causal)
    inputs = [query, key, value, added, np.array(factor, query.dtype), np.arange(B, dtype=np.int32)]
    answer = cache.request.infer([np.asarray(array, order="C") for array in inputs])[0]
    cache.stored += T
    return np.array(answer), cache


def _added(query: Array, past: int, given: Array, *, causal: bool) -> Array:
    """What is added to the logits (·,·,T,P+T): -inf hides a key. The model's own mask is always handed over."""
    T, dtype = query.shape[2], query.dtype
    added = np.zeros((query.shape[0], 1, T, past + T), dtype)
    if given is not None:
        added = added + (np.where(given, 0, -np.inf).astype(dtype) if given.dtype == bool else given)
    if causal:
        later = np.arange(past + T) > past + np.arange(T)[:, None]
        added = np.where(later, np.array(-np.inf, dtype), added)
    return added


@lru_cache(maxsize=64)
def _compiled(heads: int, width: int, value_width: int, dtype: str, chosen: Chosen) -> Model:
    """A model with room for any batch and any number of tokens, compiled."""
    number = np.dtype(dtype)
    query, key, value = (opset13.parameter([-1, heads, -1, size], number) for size in (width, width, value_width))
    mask, scale, beams = (opset13.parameter(shape, kind) for shape, kind in (
        ([-1, -1, -1, -1], number), ([], number), ([-1], np.int32)))
    stored = [_stored(name, new, beams, [heads, size], number)
              for name, new, size in (("keys", key, width), ("values", value, value_width))]
    node = opset13.scaled_dot_product_attention(query, stored[0][0], stored[1][0], mask, scale, False)
    model = ov.Model(results=[opset13.result(node)], sinks=[assign for _, assign in stored],
                     parameters=[query, key, value, mask, scale, beams], name="decoder")
    return ov.Core().compile_model(model, "CPU", {**FLOAT32, **dict(chosen)})


def _stored(name: str, new: Any, beams: Any, sizes: list[int], number: Any) -> tuple[Any, Any]:  # noqa: ANN401  (openvino is not seen by mypy)
    """What a variable holds with the new tokens behind it (B,H,P+T,·), and the node that stores that."""
    heads, width = sizes
    info = util.VariableInfo()
    info.variable_id, info.data_type = name, ov.Type(number)
    info.data_shape = ov.PartialShape([-1, heads, -1, width])
    variable, axis = util.Variable(info), opset13.constant(0, dtype=np.int64)
    batch = opset13.gather(opset13.shape_of(new), opset13.constant([0], dtype=np.int64), axis)
    empty = opset13.concat([batch, opset13.constant([heads, 0, width], dtype=np.int64)], 0)
    begin = opset13.broadcast(opset13.constant(np.zeros((), number)), empty)
    joined = opset13.concat([opset13.gather(opset13.read_value(begin, variable), beams, axis), new], 2)
    return joined, opset13.assign(joined, variable)
