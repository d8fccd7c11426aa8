"""flax.linen's `MultiHeadDotProductAttention` and flax.nnx's `MultiHeadAttention` with `decode=True`, and their caches.

Both take one token in a call, so several are decoded one after the other, and every call is causal. A cache has room
for SLOTS keys; the layer hides the slots that hold none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping

import jax
import jax.numpy as jnp
from flax import linen, nnx

from ..jax.compiled import hurried_jit
from .parameters import kernels

Array = Any
Params = Mapping[str, Array]
Cache = Mapping[str, Any]

SLOTS = 128


def linen_step(query: Array, key: Array, value: Array, cache: Cache | None, *, params: Params, heads: int,
               mask: Array = None, causal: bool) -> tuple[Array, Cache]:
    """Query, key and value (B,T,M) to (B,T,M), and the collection "cache"."""
    del causal  # declared: every call is
    cache = _linen_cache(query, params, heads) if cache is None else cache
    return _one_by_one(_linen_token, (query, key, value), cache, params=params, heads=heads, mask=mask)


def nnx_step(query: Array, key: Array, value: Array, cache: Cache | None, *, params: Params, heads: int,
             mask: Array = None, causal: bool) -> tuple[Array, Cache]:
    """The same, and the state of the layer's nnx.Cache variables. Key/value heads may be fewer."""
    del causal  # declared: every call is
    cache = nnx.state(_nnx_layer(query, params, heads), nnx.Cache) if cache is None else cache
    return _one_by_one(_nnx_token, (query, key, value), cache, params=params, heads=heads, mask=mask)


def _one_by_one(token: Callable[..., tuple[Array, Cache]], new: tuple[Array, Array, Array], cache: Cache, *,
                params: Params, heads: int, mask: Array) -> tuple[Array, Cache]:
    """Token after token. A mask (B,H,T,P+T) has a column for every key of the call."""
    outputs = []
    for place in range(new[0].shape[1]):
        given = (array[:, place:place + 1] for array in new)
        output, cache = token(*given, cache, params=params, heads=heads, mask=_of_slots(mask, place))
        outputs.append(output)
    return jnp.concatenate(outputs, axis=1), cache


def _of_slots(mask: Array, place: int) -> Array:
    """A token's row of a mask as (B,H,1,SLOTS): of slots that hold no key it says nothing."""
    if mask is None:
        return None
    row = mask[:, :, min(place, mask.shape[2] - 1)][:, :, None, :SLOTS]
    return row if row.shape[3] == 1 else jnp.pad(row, [(0, 0)] * 3 + [(0, SLOTS - row.shape[3])])


def _linen(query: Array, key: Array, value: Array, cache: Cache, *, params: Params, heads: int,
           mask: Array) -> tuple[Array, Cache]:
    """One token (B,1,M)."""
    layer, variables = _linen_layer(query, params, heads), {"params": kernels(params, heads), "cache": cache}
    output, changed = layer.apply(variables, query, key, value, mask=mask, mutable=["cache"])
    return output, changed["cache"]


def _linen_layer(query: Array, params: Params, heads: int) -> linen.MultiHeadDotProductAttention:
    return linen.MultiHeadDotProductAttention(
        num_heads=heads, qkv_features=params["w_query"].shape[1], out_features=params["w_out"].shape[1], decode=True,
        dtype=query.dtype, param_dtype=query.dtype, deterministic=True)


def _linen_cache(query: Array, params: Params, heads: int) -> Cache:
    """What `init` makes for an input of SLOTS tokens: zeros."""
    X = jax.ShapeDtypeStruct((query.shape[0], SLOTS, query.shape[2]), query.dtype)
    made = jax.eval_shape(_linen_layer(query, params, heads).init, jax.random.key(0), X)
    empty: Cache = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), made["cache"])
    return empty


def _nnx(query: Array, key: Array, value: Array, cache: Cache, *, params: Params, heads: int,
         mask: Array) -> tuple[Array, Cache]:
    """One token (B,1,M)."""
    layer = _nnx_layer(query, params, heads)
    nnx.update(layer, cache)
    output = layer(query, key, value, mask=mask)
    return output, nnx.state(layer, nnx.Cache)


def _nnx_layer(query: Array, params: Params, heads: int) -> nnx.MultiHeadAttention:
    """The layer that has these parameters and an empty cache."""
    (M, features), width = params["w_query"].shape, params["w_query"].shape[1] // heads
    kv_heads = params["w_key"].shape[1] // width
    graph, state = _blank(M, features, params["w_out"].shape[1], heads, kv_heads)
    arrays = {(module, name): array for module, arrays in kernels(params, heads, kv_heads).items()
              for name, array in arrays.items()}
    filled = {path: variable.replace(arrays[path]) for path, variable in state}
    layer: nnx.MultiHeadAttention = nnx.merge(graph, nnx.from_flat_state(filled))
    layer.init_cache((query.shape[0], SLOTS, M), dtype=query.dtype)
    return layer


@lru_cache(maxsize=256)
def _blank(M: int, features: int, out_features: int, heads: int, kv_heads: int) -> tuple[Any, Any]:
    """The layer's structure, and its variables by path."""
    layer = nnx.eval_shape(lambda: nnx.MultiHeadAttention(
        heads, M, features, out_features, kv_heads, decode=True, keep_rngs=False, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(layer)
    return graph, tuple(nnx.to_flat_state(state))


_linen_token = hurried_jit(_linen, "heads")
_nnx_token = hurried_jit(_nnx, "heads")
