"""`keras_hub.layers.CachedMultiHeadAttention` as a decoder, on whatever backend KERAS_BACKEND names.

As in KerasHub's models, the cache (B,2,SLOTS,H,D) of zeros is made before the first call, and each call is told the
place at which it splices new keys and values in. The models make the mask, which also hides slots that hold no key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping, NamedTuple

import keras
from keras import ops
from keras_hub.layers import CachedMultiHeadAttention

Array = Any
Layer = Any
Params = Mapping[str, Array]

SLOTS = 128


class Cache(NamedTuple):
    """Keys and values, (B,2,SLOTS,H,D), of which the first `taken` slots are in use."""

    both: Array
    taken: int


def step(query: Array, key: Array, value: Array, cache: Cache | None, *, params: Params, heads: int,
         mask: Array = None, causal: bool = False) -> tuple[Array, Cache]:
    """Query, key and value (B,T,M) to (B,T,M), and the cache."""
    output, held = _called((query, key, value), cache, params, heads, _Wanted(mask, causal, False))
    return output[0], held


def scores(query: Array, key: Array, value: Array, cache: Cache | None, *, params: Params, heads: int,
           mask: Array = None, causal: bool = False, return_weights: bool = False) -> tuple[Any, ...]:
    """The same, asked for scores (B,H,T,P+T): written out in einsums."""
    output, held = _called((query, key, value), cache, params, heads, _Wanted(mask, causal, True))
    return (output[0], output[1][..., :held.taken], held) if return_weights else (output[0], held)


class _Wanted(NamedTuple):
    """What is asked for beside the output over all keys."""

    mask: Array
    causal: bool
    weights: bool


def _called(new: tuple[Array, Array, Array], cache: Cache | None, params: Params, heads: int,
            wanted: _Wanted) -> tuple[tuple[Array, ...], Cache]:
    query, key, value = new
    both, taken = cache or Cache(_empty(query, params, heads), 0)
    end = taken + key.shape[1]
    places = taken + ops.arange(query.shape[1])
    last = ops.minimum(places if wanted.causal else places + end, end - 1)
    *output, both = _filled(query, params, heads)(
        query, value, key, attention_mask=_seen(last, wanted.mask), cache=both, cache_update_index=taken,
        return_attention_scores=wanted.weights)
    return tuple(output), Cache(both, end)


def _empty(query: Array, params: Params, heads: int) -> Array:
    width = params["w_key"].shape[1] // heads
    return ops.zeros((query.shape[0], 2, SLOTS, heads, width), dtype=keras.backend.standardize_dtype(query.dtype))


def _seen(last: Array, mask: Array) -> Array:
    """(1,1,T,SLOTS), or (B,H,T,SLOTS) with a mask: the slots up to the last one that each query sees, as
    `compute_causal_mask` of KerasHub's decoders counts them.
    """
    shown = (ops.expand_dims(last, 1) >= ops.arange(SLOTS))[None, None]
    if mask is None:
        return shown
    room = [(0, 0)] * 3 + [(0, max(SLOTS - mask.shape[3], 0))]
    return ops.logical_and(shown, ops.pad(ops.cast(mask, "int32"), room)[..., :SLOTS] > 0)


def _filled(query: Array, params: Params, heads: int) -> Layer:
    """The layer with these parameters: kernels (M,H,D), biases (H,D), and (H,D,M) and (M) of the output."""
    M = query.shape[2]
    layer = _built(M, heads, params["w_query"].shape[1] // heads, keras.backend.standardize_dtype(query.dtype))
    dense = {"query": layer.query_dense, "key": layer.key_dense, "value": layer.value_dense, "out": layer.output_dense}
    for name, each in dense.items():
        each.kernel.assign(ops.reshape(params[f"w_{name}"], each.kernel.shape))
        each.bias.assign(ops.reshape(params[f"b_{name}"], each.bias.shape))
    return layer


@lru_cache(maxsize=64)
def _built(M: int, heads: int, width: int, dtype: str) -> Layer:
    layer = CachedMultiHeadAttention(num_heads=heads, key_dim=width, output_shape=M, dtype=dtype)
    shape = (None, None, M)
    layer.build(query_shape=shape, value_shape=shape, key_shape=shape)
    return layer
