"""flax.nnx: `dot_product_attention` as a function, which puts T before H, and `MultiHeadAttention`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping

from flax import nnx as flax_nnx

from ..jax.compiled import hurried_jit
from .parameters import kernels

Array = Any
Params = Mapping[str, Array]


def _function(**switches: object) -> Callable[..., Array]:
    """`nnx.dot_product_attention`, with these of its keywords set."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False) -> Array:
        """Query (B,H,T,D), key and value (B,Hkv,S,D) to (B,H,T,D)."""
        query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
        output = flax_nnx.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal, **switches)
        return output.swapaxes(1, 2)

    return attend


def _layer(*, sow_weights: bool = False, **switches: object) -> Callable[..., Array]:
    """`nnx.MultiHeadAttention` made with these arguments, and called asking for weights or not."""

    def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False) -> Array:
        """Query (B,T,M), key and value (B,S,M) to (B,T,M)."""
        layer = _with(params, heads, **switches)
        return layer(query, key, value, mask=mask, is_causal=causal, sow_weights=sow_weights)

    return attend


def layer_with_weights(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                       causal: bool = False, return_weights: bool = False) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M), and the sown weights (B,H,T,S) if asked for."""
    layer = _with(params, heads)
    output = layer(query, key, value, mask=mask, is_causal=causal, sow_weights=True)
    return (output, flax_nnx.pop(layer, flax_nnx.Intermediate)["attention_weights"][0]) if return_weights else output


def _with(params: Params, heads: int, **switches: object) -> flax_nnx.MultiHeadAttention:
    """The layer that has these parameters."""
    (M, features), width = params["w_query"].shape, params["w_query"].shape[1] // heads
    kv_heads = params["w_key"].shape[1] // width
    graph, state = _blank(M, features, params["w_out"].shape[1], heads, kv_heads, switches=tuple(switches.items()))
    arrays = {(module, name): array for module, arrays in kernels(params, heads, kv_heads).items()
              for name, array in arrays.items()}
    filled = {path: variable.replace(arrays[path]) if path in arrays else variable for path, variable in state}
    return flax_nnx.merge(graph, flax_nnx.from_flat_state(filled))


@lru_cache(maxsize=256)
def _blank(M: int, features: int, out_features: int, heads: int, kv_heads: int, *,
           switches: tuple[tuple[str, object], ...]) -> tuple[Any, Any]:
    """The layer's structure, and its variables by path: making it anew for every call would cost more than the call."""
    layer = flax_nnx.eval_shape(lambda: flax_nnx.MultiHeadAttention(
        heads, M, features, out_features, kv_heads, decode=False, rngs=flax_nnx.Rngs(0), **dict(switches)))
    graph, state = flax_nnx.split(layer)
    return graph, tuple(flax_nnx.to_flat_state(state))


function = hurried_jit(_function(), "causal")
function_unfused = hurried_jit(_function(dropout_rate=0.5, deterministic=True), "causal")
layer_eager = _layer()
layer = hurried_jit(layer_eager, "heads", "causal")
layer_sown = hurried_jit(layer_with_weights, "heads", "causal", "return_weights")
layer_dropout_off = hurried_jit(_layer(dropout_rate=0.5, deterministic=True, keep_rngs=False), "heads", "causal")
